#include "compiler/lower/internal/passes/matmul_decomposition.h"

#include "base/tensor/einsum.h"
#include "base/text/text.h"
#include "compiler/plan/plan.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

Einsum einsum_of(const KernelForm& matmul) {
  return *parse_einsum(matmul.call->text);
}

}  // namespace

MatmulAnalysis::MatmulAnalysis(const Program& program, int64_t chunks, const CostModel& cost)
    : program_(program),
      chunks_(chunks),
      cost_(cost),
      uses_(program),
      has_one_pass_(program.instructions.size(), true) {
  for (const InstructionInstance& instance : program.order)
    if (instance.pass != at(instance.instruction).pass) has_one_pass_[instance.instruction] = false;
}

bool MatmulAnalysis::are_in_one_pass(InstructionIndex a, InstructionIndex b) const {
  return has_one_pass_[a] && has_one_pass_[b] && in_same_pass(at(a), at(b));
}

bool MatmulAnalysis::is_in_arena(RegisterFormIndex index) const {
  return reg(index).storage == Register::Storage::kArena;
}

bool MatmulAnalysis::is_matmul(InstructionIndex index) const {
  const KernelForm* kernel = at(index).kernel();
  return kernel && kernel->call->kernel == "dot_general" && is_in_arena(kernel->outputs.front());
}

bool MatmulAnalysis::is_within_mesh(InstructionIndex exchange) const {
  const ExchangeStep& step = *at(exchange).exchange();
  return reg(step.source()).mesh == reg(step.target()).mesh && is_in_arena(step.target());
}

int MatmulAnalysis::kept_dim(const KernelForm& matmul, size_t input, int dim) const {
  const Einsum einsum = einsum_of(matmul);
  const char letter = einsum.operands[input][dim];
  return !has_letter(einsum.result, letter) || has_letter(einsum.operands[1 - input], letter)
             ? -1
             : dim_of_letter(einsum.result, letter);
}

Seconds MatmulAnalysis::kernel_time(InstructionIndex matmul, int64_t chunks) const {
  const KernelForm& step = *at(matmul).kernel();
  const auto types = [&](const std::vector<RegisterFormIndex>& list) {
    std::vector<TensorType> local;
    for (RegisterFormIndex index : list) local.push_back(largest_type(reg(index)));
    return local;
  };
  LocalWork work = work_of(localize(step.call, {}, types(step.inputs), types(step.outputs)));
  // Chunks share the arithmetic. Their memory traffic is not counted, since matmuls reuse operands.
  work = {work.operation, work.dtype, Flops(work.flops.value() / static_cast<double>(chunks))};
  return compute_price(work, cost_.device).estimate;
}

Seconds MatmulAnalysis::copy_time(RegisterFormIndex index, int64_t kernels) const {
  const Bytes bytes = byte_size(largest_type(reg(index)));
  return copy_price(bytes + bytes, kernels, cost_.device).estimate;
}

Seconds MatmulAnalysis::exchange_time(InstructionIndex exchange, int dim, int64_t chunks) {
  const ExchangeStep& step = *at(exchange).exchange();
  TensorType type = reg(step.source()).type;
  if (chunks > 1) type.shape[dim] /= chunks;
  const auto [found, is_new] = prices_.try_emplace(
      {step.exchange().from.mesh.get(),
       to_text(type, step.exchange().from) + " to " + to_text(step.exchange().to)});
  if (is_new) found->second = price(type, step.exchange(), cost_.links).estimate;
  return found->second;
}

std::vector<int64_t> MatmulAnalysis::chunk_counts(const std::vector<ChunkedDim>& dims,
                                                  int64_t blocks) const {
  std::vector<int64_t> list;
  const bool is_given = chunks_ != kAutoChunks;
  for (int64_t chunks = is_given ? chunks_ : kMaxChunks; chunks > 1; --chunks)
    if (divides_evenly(program_, dims, blocks, chunks)) {
      list.push_back(chunks);
      if (is_given) break;
    }
  return list;
}

void MatmulAnalysis::keep_better(std::optional<Decomposition>& best,
                                 const Decomposition& candidate) const {
  const auto extent = [&](const Decomposition& d) {
    return largest_type(reg(d.dims.front().reg)).shape[d.dims.front().dim];
  };
  if (!best || candidate.seconds < best->seconds ||
      (candidate.seconds == best->seconds && extent(candidate) > extent(*best)))
    best = candidate;
}

bool MatmulAnalysis::decide(const std::optional<Decomposition>& best,
                            const std::vector<InstructionIndex>& matmuls,
                            const std::vector<InstructionIndex>& exchanges, Seconds whole) {
  const bool pays = best && (chunks_ != kAutoChunks || best->seconds < whole);
  std::vector<std::string> ops, names;
  for (InstructionIndex matmul : matmuls) ops.push_back(at(matmul).kernel()->op);
  for (InstructionIndex exchange : exchanges) {
    const ExchangeStep& step = *at(exchange).exchange();
    names.push_back(std::string(to_text(step.kind())) + " " + reg(step.target()).name.with("0"));
  }
  report_ += join(ops, ", ") + " with " + join(names, " and ") + ": ";
  const auto chunks = [&] {
    return std::to_string(best->count) + " chunks of dim " +
           std::to_string(best->matmuls.front().result.dim);
  };
  if (!best)
    report_ += "whole, no dim that could be cut is divided evenly\n";
  else if (pays)
    report_ += chunks() + ", " + to_text(best->seconds) + "; whole " + to_text(whole) + "\n";
  else
    report_ += "whole, " + to_text(whole) + "; " + chunks() + " " + to_text(best->seconds) + "\n";
  return pays;
}

InstructionRewrites::InstructionRewrites(Program& program)
    : program_(program),
      is_replaced_(program.instructions.size(), false),
      replacements_(program.instructions.size()) {}

InstructionIndex InstructionRewrites::writer(const ProgramUses& uses, RegisterFormIndex reg) const {
  const auto moved = moved_.find(reg);
  return moved == moved_.end() ? uses.writer(reg) : moved->second;
}

void InstructionRewrites::apply() {
  IndexedVector<InstructionIndex, Instruction> instructions;
  IndexedVector<InstructionIndex, InstructionIndex> begins;  // of what is in its place
  for (InstructionIndex i : program_.instructions.indices()) {
    begins.push_back(instructions.end_index());
    if (!is_replaced_[i]) instructions.push_back(std::move(program_.instructions[i]));
    for (Instruction& made : replacements_[i]) instructions.push_back(std::move(made));
  }
  begins.push_back(instructions.end_index());
  program_.instructions = std::move(instructions);
  InstanceOrder order;
  for (const InstructionInstance& instance : program_.order)
    for (InstructionIndex i :
         IndexRange(begins[instance.instruction], begins[instance.instruction + 1]))
      order.push_back({i, instance.micro_batch, instance.pass});
  program_.order = std::move(order);
}

}  // namespace tessera
