// Regions: what a While or an If runs, made as the whole program is, under the placements that the
// op has outside.
#pragma once

#include "lower/program.h"
#include "shard/propagate.h"

namespace tessera {

/// How an op with regions is divided, in one micro-batch or once a step.
struct RegionSite {
  const Op& op;
  std::vector<DistAttr>
      inputs;  // of the op; with several micro-batches on the mesh with time in front
  std::vector<DistAttr> outputs;
  const MeshPtr& mesh;  // of ranks
  int64_t micro_batches = 1;
  int micro_batch = -1;  // -1: once a step
  ReshardOptions reshard = {};
};

/// Makes the task graphs of the op's regions.
///
///   ensures  check() holds for each; a predicate is made whole on every rank; carried values
///   are left where and as they were taken throws   UserError (78) when an op inside needs the
///   whole batch at once
std::shared_ptr<const Control> lower_control(const RegionSite& site);

}  // namespace tessera
