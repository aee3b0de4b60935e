#include "compiler/lower/internal/passes/matmul_sum.h"

#include <algorithm>

namespace tessera {

/// What the sum reads, back to its matmuls.
///   returns  false when anything else reads a part of it
bool MatmulSums::find_summands(RegisterFormIndex result, InstructionIndex sum,
                               Summands& found) const {
  const ProgramUses& uses = analysis_.uses();
  const InstructionIndex writer = rewrites_.writer(uses, result);
  if (writer.is_none() || rewrites_.is_replaced(writer) ||
      !analysis_.are_in_one_pass(writer, sum) || uses.readers(result).size() != 1 ||
      uses.is_live_out(result) || !analysis_.is_in_arena(result))
    return false;
  if (analysis_.is_matmul(writer)) {
    found.matmuls.push_back(writer);
    return true;
  }
  const KernelForm* addition = at(writer).kernel();
  if (!addition || addition->call->kernel != "binary.add" ||
      is_sum_over_micro_batches(at(writer)) || addition->inputs[0] == addition->inputs[1] ||
      !find_summands(addition->inputs[0], sum, found) ||
      !find_summands(addition->inputs[1], sum, found))
    return false;
  found.additions.push_back(writer);
  return true;
}

/// Would the instruction read the same at `to`? Not when a variable is written over in between.
bool MatmulSums::may_move(InstructionIndex from, InstructionIndex to) const {
  for (InstructionIndex i : IndexRange(from + 1, to + 1))
    for (RegisterFormIndex written : at(i).writes())
      if (!analysis_.is_in_arena(written)) return false;
  return true;
}

/// `sum`, and the all-gathers of the same pass that read its result at once.
std::vector<InstructionIndex> MatmulSums::exchanges_from(InstructionIndex sum) const {
  const ProgramUses& uses = analysis_.uses();
  std::vector<InstructionIndex> chain{sum};
  while (true) {
    const RegisterFormIndex last = exchange(chain.back()).target();
    if (uses.readers(last).size() != 1 || uses.is_live_out(last)) return chain;
    const InstructionIndex next = uses.readers(last).front();
    if (!at(next).exchange() || rewrites_.is_replaced(next) ||
        exchange(next).kind() != ReshardKind::kAllGather || !analysis_.is_within_mesh(next) ||
        !analysis_.are_in_one_pass(next, sum))
      return chain;
    chain.push_back(next);
  }
}

/// The matmul divided where its result has dim `dim`.
std::optional<DividedMatmul> MatmulSums::divide(InstructionIndex matmul, int dim) const {
  const KernelForm& step = *at(matmul).kernel();
  for (size_t input = 0; input < 2; ++input)
    for (int d = 0; d < reg(step.inputs[input]).type->shape.size(); ++d)
      if (analysis_.kept_dim(step, input, d) == dim)
        return DividedMatmul{matmul, input, d, {step.outputs.front(), dim}};
  return std::nullopt;
}

/// All that has dim `dim`: results, operands and exchanged tensors. None when a matmul cannot be
/// divided there.
std::optional<Decomposition> MatmulSums::candidate_at(
    const Summands& summands, const std::vector<InstructionIndex>& exchanges, int dim) const {
  Decomposition candidate{{}, {{exchange(exchanges.front()).source(), dim}}};
  for (InstructionIndex index : exchanges)
    candidate.dims.push_back({exchange(index).target(), dim});
  for (InstructionIndex index : summands.matmuls) {
    const auto matmul = divide(index, dim);
    if (!matmul) return std::nullopt;
    candidate.matmuls.push_back(*matmul);
    candidate.dims.push_back(matmul->result);
    candidate.dims.push_back({operand_of(*matmul), matmul->input_dim});
  }
  const auto blocks = common_blocks(program_, candidate.dims);
  if (!blocks) return std::nullopt;
  candidate.blocks = *blocks;
  return candidate;
}

Seconds MatmulSums::kernels_time(const Summands& summands, int64_t chunks) const {
  Seconds time{0};
  for (InstructionIndex matmul : summands.matmuls) time += analysis_.kernel_time(matmul, chunks);
  for (InstructionIndex addition : summands.additions) {
    const RegisterFormIndex result = at(addition).kernel()->outputs.front();
    time += Seconds(analysis_.copy_time(result, 0).value() / static_cast<double>(chunks)) +
            analysis_.launch();
  }
  return time;
}

Seconds MatmulSums::time_of(const Decomposition& candidate, const Summands& summands,
                            const std::vector<InstructionIndex>& exchanges) {
  ChunkTimes times{Seconds(0), kernels_time(summands, candidate.count),
                   analysis_.copy_time(exchange(exchanges.back()).target(), 1)};
  for (const DividedMatmul& matmul : candidate.matmuls)
    times.copies += analysis_.copy_time(operand_of(matmul), candidate.count);
  for (InstructionIndex index : exchanges)
    times.exchange += analysis_.exchange_time(index, candidate.dims.front().dim, candidate.count);
  return decomposed_time(candidate.count, times);
}

std::optional<Decomposition> MatmulSums::best_candidate(
    const Summands& summands, const std::vector<InstructionIndex>& exchanges) {
  std::optional<Decomposition> best;
  const RegisterFormIndex source = exchange(exchanges.front()).source();
  for (int dim = 0; dim < reg(source).type->shape.size(); ++dim) {
    auto candidate = candidate_at(summands, exchanges, dim);
    if (!candidate) continue;
    for (int64_t chunks : analysis_.chunk_counts(candidate->dims, candidate->blocks)) {
      candidate->count = chunks;
      candidate->seconds = time_of(*candidate, summands, exchanges);
      analysis_.keep_better(best, *candidate);
    }
  }
  return best;
}

void MatmulSums::decompose(InstructionIndex sum) {
  Summands summands;
  if (rewrites_.is_replaced(sum) || !analysis_.is_within_mesh(sum) ||
      !find_summands(exchange(sum).source(), sum, summands))
    return;
  const InstructionIndex position = rewrites_.writer(analysis_.uses(), exchange(sum).source());
  if (std::any_of(summands.matmuls.begin(), summands.matmuls.end(),
                  [&](InstructionIndex matmul) { return !may_move(matmul, position); }))
    return;
  const std::vector<InstructionIndex> exchanges = exchanges_from(sum);
  Seconds whole = kernels_time(summands, 1);
  for (InstructionIndex index : exchanges) whole += analysis_.exchange_time(index, 0, 1);
  const auto best = best_candidate(summands, exchanges);
  if (analysis_.decide(best, summands.matmuls, exchanges, whole))
    rewrite(*best, summands, exchanges, position);
}

void MatmulSums::rewrite(const Decomposition& chosen, const Summands& summands,
                         const std::vector<InstructionIndex>& exchanges,
                         InstructionIndex position) {
  const int dim = chosen.dims.front().dim;
  const ChunkedDim last{exchange(exchanges.back()).target(), dim};
  std::vector<RegisterFormIndex> free;
  std::map<RegisterFormIndex, RegisterForm> wholes;  // registers of which only chunks remain
  const auto remove = [&](InstructionIndex index) {
    for (RegisterFormIndex written : at(index).writes()) {
      wholes[written] = reg(written);
      if (written != last.reg) free.push_back(written);
    }
    rewrites_.remove(index);
  };
  for (InstructionIndex index : summands.matmuls) remove(index);
  for (InstructionIndex index : summands.additions) remove(index);
  for (InstructionIndex index : exchanges) remove(index);
  ChunkMaker maker(program_, chosen.blocks, chosen.count, free);
  std::vector<Instruction>& kernels = rewrites_.replacement(position);
  std::vector<Instruction>& transfers = rewrites_.replacement(exchanges.back());
  std::vector<RegisterFormIndex> ends;
  for (int64_t i = 0; i < chosen.count; ++i) {
    std::map<RegisterFormIndex, RegisterFormIndex> chunk;  // by whole register
    const auto add = [&](RegisterFormIndex whole) {
      return chunk[whole] = maker.chunk_of(wholes.at(whole), dim, i);
    };
    for (const DividedMatmul& matmul : chosen.matmuls) {
      const ChunkedDim operand{operand_of(matmul), matmul.input_dim};
      const RegisterFormIndex taken = maker.chunk_of(reg(operand.reg), operand.dim, i);
      kernels.push_back(maker.take(operand, taken, at(matmul.at)));
      kernels.push_back(
          maker.kernel_of(at(matmul.at), matmul.input, taken, add(matmul.result.reg)));
    }
    for (InstructionIndex addition : summands.additions) {
      Instruction sum = at(addition);
      KernelForm& step = *sum.kernel();
      step.inputs[1] = chunk.at(step.inputs[1]);
      kernels.push_back(
          maker.kernel_of(sum, 0, chunk.at(step.inputs[0]), add(step.outputs.front())));
    }
    for (InstructionIndex index : exchanges)
      transfers.push_back(ChunkMaker::exchange_of(at(index), chunk.at(exchange(index).source()),
                                                  add(exchange(index).target())));
    ends.push_back(chunk.at(last.reg));
  }
  transfers.push_back(maker.join(ends, last, at(exchanges.back())));
}

}  // namespace tessera
