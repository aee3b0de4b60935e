#include "compiler/placement_check/internal/checked_program.h"

#include "compiler/placement_check/internal/sampled_coordinates.h"

namespace tessera {

CheckedProgram::CheckedProgram(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches)
    : graph_(graph), tasks_(tasks), micro_batch_axis_(tasks, micro_batches) {
  for (const MeshPtr& mesh : tasks.meshes) coordinates_.push_back(sampled_coordinates(*mesh));
}

}  // namespace tessera
