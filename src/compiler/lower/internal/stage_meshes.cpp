#include "compiler/lower/internal/stage_meshes.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

StageMeshes::StageMeshes(const ShardedGraph& sharded, const Meshes& meshes, int64_t micro_batches,
                         Program& program)
    : sharded_(sharded), meshes_(meshes), program_(program), micro_batches_(micro_batches) {
  for (const NamedMesh& mesh : meshes) {
    const auto is_equal = [&](const NamedMesh& other) {
      return *other.mesh == *mesh.mesh && other.device == mesh.device;
    };
    const auto first = std::find_if(meshes.begin(), meshes.end(), is_equal) - meshes.begin();
    const StageIndex stage(static_cast<int>(first));
    const bool is_new = stage == program.mesh_of_stage.end_index();
    program.mesh_of_stage.push_back(is_new ? program.meshes.end_index() : mesh_of(stage));
    if (is_new) program.meshes.push_back(mesh.mesh);
  }
  for (StageIndex stage : program.mesh_of_stage.indices())
    program.viewed_stage.push_back(StageIndex(tessera::stage_of(meshes, stage.value())));
}

StageIndex StageMeshes::stage_of(const MeshPtr& mesh) const {
  for (size_t i = 0; i < sharded_.meshes.size(); ++i)
    if (sharded_.meshes[i].mesh == mesh) return StageIndex(static_cast<int>(i));
  throw InternalError("a placement names a mesh of the program");
}

const std::string& StageMeshes::name_of(MeshIndex mesh) const {
  const auto& stages = program_.mesh_of_stage;
  return meshes_[std::find(stages.begin(), stages.end(), mesh) - stages.begin()].name;
}

MicroBatchPlacement StageMeshes::placed(const DistAttr& attr) const {
  const MeshPtr& mesh = program_.meshes[mesh_of(stage_of(attr.mesh))];
  if (micro_batches_ > 1) return micro_batch_placement(attr, mesh);
  MicroBatchPlacement once{false, -1, ReduceOp::kSum, attr};
  once.attr.mesh = mesh;
  return once;
}

}  // namespace tessera
