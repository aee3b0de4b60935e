// The meshes of a program's stages, and what the placements of a sharded graph say on them.
#pragma once

#include <string>

#include "compiler/lower/internal/program.h"
#include "sharding/propagation/micro_batches.h"
#include "sharding/propagation/propagate.h"

namespace tessera {

/// With several micro-batches the placements of `sharded` are on meshes whose first axis is the
/// micro-batch; those of a program are on meshes of ranks, once for each micro-batch.
///
/// threads  const functions from any number of threads
class StageMeshes {
 public:
  /// Stages on equal meshes of equal devices share one mesh, so that they read each other's
  /// registers without an exchange.
  ///   meshes   of ranks, one a stage
  ///   ensures  meshes, mesh_of_stage and viewed_stage of `program` are set
  StageMeshes(const ShardedGraph& sharded, const Meshes& meshes, int64_t micro_batches,
              Program& program);

  int64_t micro_batches() const { return micro_batches_; }
  /// As loop bound: an instance of an op for each micro-batch has these indices.
  int micro_batch_count() const { return static_cast<int>(micro_batches_); }

  /// The stage on whose mesh a placement of the sharded graph is.
  StageIndex stage_of(const MeshPtr& mesh) const;
  MeshIndex mesh_of(StageIndex stage) const { return program_.mesh_of_stage[stage]; }
  /// The name of the first stage on a mesh.
  const std::string& name_of(MeshIndex mesh) const;

  /// A placement of the sharded graph on the mesh of ranks, and how it divides micro-batches.
  MicroBatchPlacement placed(const DistAttr& attr) const;
  /// Is the op computed once for each micro-batch?
  bool runs_by_micro_batch(const OpSharding& sharding) const {
    return micro_batches_ > 1 && sharding.uses(0);
  }

 private:
  const ShardedGraph& sharded_;
  const Meshes& meshes_;
  const Program& program_;
  int64_t micro_batches_;
};

}  // namespace tessera
