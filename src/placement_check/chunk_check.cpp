#include "placement_check/chunk_check.h"

#include "placement_check/symbolic_placements.h"

namespace tessera {
namespace {

/// What chunk the factors of an op have; `dim` is 0 where one has.
using ChunksOfFactors = std::vector<Chunk>;

/// Calls visit(register, its factors) for each operand, results too.
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
    if (!may_be_chunked(rule, dim) || !op.regions.empty() || !step.call.ints.empty())
      refuse("op '" + op.name + "' cannot work on a chunk of '" + reg.name + "'");
    chunks[dim.factor] = {0, reg.chunk.blocks, reg.chunk.count, reg.chunk.index};
  });
  return chunks;
}

void check_operand(const Op& op, const ChunksOfFactors& chunks, const Register& reg,
                   const OperandFactors& factors) {
  for (size_t d = 0; d < factors.size(); ++d)
    for (const DimFactor& dim : choices_of(factors[d])) {
      Chunk wanted = chunks[dim.factor];
      const bool is_chunked = wanted.dim == 0;
      wanted.dim = static_cast<int>(d);
      if (is_chunked ? !(reg.chunk == wanted) : reg.chunk.dim == wanted.dim)
        refuse("op '" + op.name + "' works on a chunk, and '" + reg.name +
               "' holds another part of it");
    }
}

}  // namespace

void check_chunks(const Op& op, const ShardingRule& rule, const TaskGraph& tasks,
                  const KernelStep& step) {
  const ChunksOfFactors chunks = chunks_of(op, rule, tasks, step);
  for_each_operand(rule, step, [&](RegisterIndex index, const OperandFactors& factors) {
    check_operand(op, chunks, tasks.registers[index], factors);
  });
  for (const OperandFactors& output : rule.outputs)
    for (size_t f = 0; f < chunks.size(); ++f)
      if (chunks[f].dim == 0 && !has_factor(output, static_cast<int>(f)))
        refuse("op '" + op.name + "' makes a result whole from a chunk of factor " +
               rule.factors[f].name);
}

void check_chunk_call(const KernelStep& step, const Register& whole, const Chunk& chunk,
                      const std::vector<LocalInt>& rest) {
  std::vector<LocalInt> ints{chunk.dim, chunk.blocks / parts_of_dim(whole.attr, chunk.dim)};
  ints.insert(ints.end(), rest.begin(), rest.end());
  if (step.call.ints != ints)
    refuse("'" + step.op + "' calls " + step.call.kernel + " for other chunks than '" + whole.name +
           "' has");
}

int64_t parts_of_dim(const DistAttr& attr, int dim) {
  int64_t parts = 1;
  for (int axis : attr.dims.at(dim).axes) parts *= attr.mesh->shape()[axis];
  return parts;
}

}  // namespace tessera
