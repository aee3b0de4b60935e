#include "compiler/placement_check/internal/chunk_check.h"

#include "compiler/placement_check/internal/refuse.h"

namespace tessera {
namespace {

/// By factor of an op, its chunk; `dim` is 0 where the op works on a chunk of the factor, else -1.
using ChunksOfFactors = std::vector<Chunk>;

/// Calls visit(register, its factors) for each input and output.
template <typename Visit>
void for_each_operand(const ShardingRule& rule, const KernelStep& step, Visit visit) {
  for (size_t i = 0; i < step.inputs.size(); ++i) visit(step.inputs[i], rule.inputs[i]);
  for (size_t i = 0; i < step.outputs.size(); ++i) visit(step.outputs[i], rule.outputs[i]);
}

bool may_be_chunked(const ShardingRule& rule, const DimFactor& dim) {
  return dim.factor >= 0 && dim.others.empty() && !dim.window && dim.chunks == 1 &&
         rule.factors[dim.factor].kind == FactorKind::kParallel;
}

ChunksOfFactors chunks_of(const Op& op, const ShardingRule& rule, const TaskGraph& tasks,
                          const KernelStep& step) {
  ChunksOfFactors chunks(rule.factors.size());
  for_each_operand(rule, step, [&](RegisterIndex index, const OperandFactors& factors) {
    const Register& reg = tasks.registers[index];
    if (reg.chunk.dim < 0) return;
    const DimFactor& dim = factors[reg.chunk.dim];
    if (!may_be_chunked(rule, dim) || !op.regions.empty() || !step.call->ints.empty())
      refuse("op '" + op.name + "' cannot work on a chunk of '" + reg.name + "'");
    chunks[dim.factor] = {0, reg.chunk.blocks, reg.chunk.count, reg.chunk.index};
  });
  return chunks;
}

void check_operand(const Op& op, const ChunksOfFactors& chunks, const Register& reg,
                   const OperandFactors& factors) {
  for (int d = 0; d < std::ssize(factors); ++d)
    for_each_choice(factors[d], [&](const DimFactor& dim) {
      Chunk wanted = chunks[dim.factor];
      const bool is_chunked = wanted.dim == 0;
      wanted.dim = d;
      if (is_chunked ? !(reg.chunk == wanted) : reg.chunk.dim == d)
        refuse("op '" + op.name + "' works on a chunk, and '" + reg.name +
               "' holds another part of it");
    });
}

/// Checks that `step` calls take_chunk or join_chunks for the blocks that a rank holds of `whole`.
///   rest  the parameters of the call after the blocks
void check_chunk_call(const KernelStep& step, const Register& whole, const Chunk& chunk,
                      const std::vector<LocalInt>& rest) {
  std::vector<LocalInt> ints{chunk.dim, whole.attr.blocks_of_rank(chunk.dim, chunk.blocks)};
  ints.insert(ints.end(), rest.begin(), rest.end());
  if (step.call->ints != ints)
    refuse("'" + step.op + "' calls " + step.call->kernel + " for other chunks than '" +
           whole.name + "' has");
}

}  // namespace

void check_chunks(const Op& op, const ShardingRule& rule, const TaskGraph& tasks,
                  const KernelStep& step) {
  bool has_chunks = false;
  for_each_operand(rule, step, [&](RegisterIndex index, const OperandFactors&) {
    has_chunks = has_chunks || tasks.registers[index].chunk.dim >= 0;
  });
  if (!has_chunks) return;
  const ChunksOfFactors chunks = chunks_of(op, rule, tasks, step);
  for_each_operand(rule, step, [&](RegisterIndex index, const OperandFactors& factors) {
    check_operand(op, chunks, tasks.registers[index], factors);
  });
  for (const OperandFactors& output : rule.outputs)
    for (int f = 0; f < std::ssize(chunks); ++f)
      if (chunks[f].dim == 0 && !has_factor(output, f))
        refuse("op '" + op.name + "' makes a result whole from a chunk of factor " +
               rule.factors[f].name);
}

void ChunkCheck::check_take(const KernelStep& step) {
  if (step.call->kernel != "take_chunk" || step.inputs.size() != 1 || step.outputs.size() != 1)
    refuse("'" + step.op + "' takes one chunk of one tensor");
  const RegisterIndex source = step.inputs[0], target = step.outputs[0];
  SymbolicPlacement placement = placements_.at(source);
  if (placement.chunk.dim >= 0)
    refuse("'" + step.op + "' takes a chunk of the chunk " + program_.quoted(source));
  placement.chunk = program_.reg(target).chunk;
  if (placement.chunk.dim < 0)
    refuse("'" + step.op + "' makes " + program_.quoted(target) + ", which is declared whole");
  check_chunk_call(step, program_.reg(source), placement.chunk, {placement.chunk.index});
  placements_.fill_from(source, target, std::move(placement));
}

void ChunkCheck::check_join(const KernelStep& step) {
  if (step.call->kernel != "join_chunks" || step.inputs.empty() || step.outputs.size() != 1)
    refuse("'" + step.op + "' joins chunks to one tensor");
  const Register& target = program_.reg(step.outputs[0]);
  SymbolicPlacement placement = placements_.at(step.inputs.front());
  Chunk wanted = placement.chunk;
  if (wanted.dim < 0 || wanted.count != std::ssize(step.inputs))
    refuse("'" + step.op + "' joins " + std::to_string(step.inputs.size()) + " of " +
           std::to_string(wanted.count) + " chunks");
  wanted.index = 0;
  for (RegisterIndex input : step.inputs) {
    const SymbolicPlacement& given = placements_.at(input);
    if (given.value != placement.value || !(given.attr == placement.attr) ||
        given.summed != placement.summed || !(given.chunk == wanted) ||
        program_.reg(input).micro_batch != target.micro_batch)
      refuse("'" + step.op + "' takes " + program_.quoted(input) + " as chunk " +
             std::to_string(wanted.index) + " of '" + program_.name_of(placement.value) + "'");
    ++wanted.index;
  }
  check_chunk_call(step, target, wanted, {});
  placement.chunk = {};
  placements_.fill_from(step.inputs.front(), step.outputs[0], std::move(placement));
}

}  // namespace tessera
