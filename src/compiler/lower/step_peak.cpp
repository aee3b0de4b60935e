#include "compiler/lower/step_peak.h"

#include "base/error.h"
#include "compiler/lower/internal/passes/arena.h"
#include "compiler/lower/internal/passes/buckets.h"
#include "compiler/lower/internal/passes/in_place.h"
#include "compiler/lower/internal/region.h"
#include "compiler/lower/partition.h"
#include "sharding/propagation/axis_levels.h"

namespace tessera {

Bytes step_peak(const Graph& graph, const ShardedGraph& sharded, const StepPeakOptions& options) {
  ensure(sharded.meshes.size() == 1, "the step is on one mesh");
  const ShardedGraph levelled = on_levels(sharded, options.reshard.links);
  Program program = partition(graph, levelled, levelled.meshes,
                              {.reshard = options.reshard, .lower_region = lower_control});
  update_variables_in_place(program);
  if (options.bucket) exchange_in_buckets(program, *options.bucket);
  int64_t variables = 0;
  for (const ProgramVariable& variable : program.variables)
    variables += align_up(total_size(program.registers[variable.value]).value());
  return Bytes(variables + live_bound(arena_blocks(program)[MeshIndex(0)]));
}

}  // namespace tessera
