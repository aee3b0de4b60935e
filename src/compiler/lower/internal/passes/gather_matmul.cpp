#include "compiler/lower/internal/passes/gather_matmul.h"

#include <algorithm>

namespace tessera {

bool GatherMatmuls::may_decompose(InstructionIndex gather) const {
  const auto readers = analysis_.uses().readers(exchange(gather).target());
  return analysis_.is_within_mesh(gather) && analysis_.is_in_arena(exchange(gather).source()) &&
         std::none_of(readers.begin(), readers.end(),
                      [&](InstructionIndex reader) { return rewrites_.is_replaced(reader); });
}

/// The matmuls of the same pass that read the gathered tensor, and that as one operand only.
std::vector<InstructionIndex> GatherMatmuls::matmuls_after(InstructionIndex gather) const {
  const RegisterFormIndex target = exchange(gather).target();
  std::vector<InstructionIndex> list;
  for (InstructionIndex reader : analysis_.uses().readers(target)) {
    if (!analysis_.is_matmul(reader) || rewrites_.is_replaced(reader) ||
        !analysis_.are_in_one_pass(reader, gather))
      continue;
    const std::vector<RegisterFormIndex>& inputs = at(reader).kernel()->inputs;
    if (std::count(inputs.begin(), inputs.end(), target) == 1) list.push_back(reader);
  }
  return list;
}

/// Those of `matmuls` that can be divided where dim `dim` of the gathered tensor is, and that can
/// run where the first of them does.
std::vector<DividedMatmul> GatherMatmuls::divide(
    InstructionIndex gather, int dim, const std::vector<InstructionIndex>& matmuls) const {
  const RegisterFormIndex whole = exchange(gather).target();
  std::vector<DividedMatmul> list;
  for (InstructionIndex index : matmuls) {
    const KernelForm& step = *at(index).kernel();
    const size_t input = step.inputs.front() == whole ? 0 : 1;
    const int kept = analysis_.kept_dim(step, input, dim);
    const InstructionIndex other = rewrites_.writer(analysis_.uses(), step.inputs[1 - input]);
    if (kept < 0 || (!list.empty() && other >= list.front().at)) continue;
    const ChunkedDim result{step.outputs.front(), kept};
    if (common_blocks(program_, std::vector{ChunkedDim{whole, dim}, result}))
      list.push_back({index, input, dim, result});
  }
  const auto comes_first = [&](InstructionIndex reader) {
    return !list.empty() && reader < list.front().at;
  };
  const auto readers = analysis_.uses().readers(whole);
  if (std::any_of(readers.begin(), readers.end(), comes_first)) list.clear();
  return list;
}

/// Does anything but these matmuls read it?
bool GatherMatmuls::is_needed_whole(RegisterFormIndex index,
                                    const std::vector<DividedMatmul>& matmuls) const {
  return analysis_.uses().is_live_out(index) ||
         analysis_.uses().readers(index).size() != matmuls.size();
}

Seconds GatherMatmuls::time_of(InstructionIndex gather, const Decomposition& candidate,
                               const std::vector<InstructionIndex>& matmuls) {
  const int dim = candidate.dims.front().dim;
  ChunkTimes times{analysis_.exchange_time(gather, dim, candidate.count), Seconds(0),
                   analysis_.copy_time(exchange(gather).source(), candidate.count)};
  if (is_needed_whole(exchange(gather).target(), candidate.matmuls))
    times.copies += analysis_.copy_time(exchange(gather).target(), 1);
  Seconds others{0};
  for (InstructionIndex index : matmuls) {
    const bool is_divided =
        std::any_of(candidate.matmuls.begin(), candidate.matmuls.end(),
                    [&](const DividedMatmul& matmul) { return matmul.at == index; });
    (is_divided ? times.kernels : others) +=
        analysis_.kernel_time(index, is_divided ? candidate.count : 1);
    if (is_divided) times.copies += analysis_.copy_time(at(index).kernel()->outputs.front(), 1);
  }
  return decomposed_time(candidate.count, times) + others;
}

std::optional<Decomposition> GatherMatmuls::best_candidate(
    InstructionIndex gather, const std::vector<InstructionIndex>& matmuls) {
  const RegisterFormIndex source = exchange(gather).source(), target = exchange(gather).target();
  std::optional<Decomposition> best;
  for (int dim = 0; dim < reg(target).type->shape.size(); ++dim) {
    Decomposition candidate{divide(gather, dim, matmuls), {{target, dim}, {source, dim}}};
    if (candidate.matmuls.empty()) continue;
    for (const DividedMatmul& matmul : candidate.matmuls) candidate.dims.push_back(matmul.result);
    const auto blocks = common_blocks(program_, candidate.dims);
    if (!blocks) continue;
    candidate.blocks = *blocks;
    for (int64_t chunks : analysis_.chunk_counts(candidate.dims, *blocks)) {
      candidate.count = chunks;
      candidate.seconds = time_of(gather, candidate, matmuls);
      analysis_.keep_better(best, candidate);
    }
  }
  return best;
}

void GatherMatmuls::decompose(InstructionIndex gather) {
  const std::vector<InstructionIndex> matmuls = matmuls_after(gather);
  if (matmuls.empty() || !may_decompose(gather)) return;
  Seconds whole = analysis_.exchange_time(gather, 0, 1);
  for (InstructionIndex matmul : matmuls) whole += analysis_.kernel_time(matmul, 1);
  const auto best = best_candidate(gather, matmuls);
  if (analysis_.decide(best, matmuls, {gather}, whole)) rewrite(gather, *best);
}

void GatherMatmuls::rewrite(InstructionIndex gather, const Decomposition& chosen) {
  const Instruction whole = at(gather);
  const ChunkedDim target = chosen.dims[0], source = chosen.dims[1];
  const bool join_target = is_needed_whole(target.reg, chosen.matmuls);
  std::vector<RegisterFormIndex> free;
  if (!join_target) free.push_back(target.reg);
  for (const DividedMatmul& matmul : chosen.matmuls)
    if (const RegisterFormIndex space = at(matmul.at).kernel()->workspace; !space.is_none())
      free.push_back(space);
  ChunkMaker maker(program_, chosen.blocks, chosen.count, free);
  const std::vector<RegisterFormIndex> received = maker.chunks_of(reg(target.reg), target.dim);
  const std::vector<RegisterFormIndex> sent = maker.chunks_of(reg(source.reg), source.dim);
  std::vector<std::vector<RegisterFormIndex>> results;
  for (const DividedMatmul& matmul : chosen.matmuls)
    results.push_back(maker.chunks_of(reg(matmul.result.reg), matmul.result.dim));

  std::vector<Instruction> block;
  const InstructionIndex first = chosen.matmuls.front().at;
  rewrites_.remove(gather);
  for (const DividedMatmul& matmul : chosen.matmuls) rewrites_.remove(matmul.at);
  for (size_t chunk = 0; chunk < received.size(); ++chunk) {
    rewrites_.replacement(gather).push_back(maker.take(source, sent[chunk], whole));
    block.push_back(ChunkMaker::exchange_of(whole, sent[chunk], received[chunk]));
    for (size_t m = 0; m < chosen.matmuls.size(); ++m)
      block.push_back(maker.kernel_of(at(chosen.matmuls[m].at), chosen.matmuls[m].input,
                                      received[chunk], results[m][chunk]));
  }
  for (size_t m = 0; m < chosen.matmuls.size(); ++m) {
    block.push_back(maker.join(results[m], chosen.matmuls[m].result, whole));
    rewrites_.move_writer(chosen.matmuls[m].result.reg, first);
  }
  if (join_target) {
    block.push_back(maker.join(received, target, whole));
    rewrites_.move_writer(target.reg, first);
  }
  rewrites_.replacement(first) = std::move(block);
}

}  // namespace tessera
