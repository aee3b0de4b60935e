#include "compiler/lower/passes/collective_matmul.h"

#include "compiler/lower/internal/passes/gather_matmul.h"
#include "compiler/lower/internal/passes/matmul_decomposition.h"
#include "compiler/lower/internal/passes/matmul_sum.h"

namespace tessera {

std::string decompose_collective_matmuls(Program& program, int64_t chunks, const CostModel& cost) {
  if (chunks == 1) return "";
  MatmulAnalysis analysis(program, chunks, cost);
  InstructionRewrites rewrites(program);
  GatherMatmuls gathers(program, analysis, rewrites);
  for (InstructionIndex i : program.instructions.indices())
    if (const ExchangeStep* step = program.instructions[i].exchange();
        step && step->kind() == ReshardKind::kAllGather)
      gathers.decompose(i);
  MatmulSums sums(program, analysis, rewrites);
  for (InstructionIndex i : program.instructions.indices())
    if (const ExchangeStep* step = program.instructions[i].exchange();
        step &&
        (step->kind() == ReshardKind::kReduceScatter || step->kind() == ReshardKind::kAllReduce))
      sums.decompose(i);
  rewrites.apply();
  return analysis.report();
}

}  // namespace tessera
