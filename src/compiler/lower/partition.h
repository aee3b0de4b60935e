// Partition: from a sharded serial graph to one program for every rank of the mesh.
#pragma once

#include <functional>
#include <memory>

#include "compiler/lower/internal/program.h"
#include "sharding/propagation/propagate.h"

namespace tessera {

/// How an op with regions is divided, in one micro-batch or once a step.
struct RegionSite {
  const Op& op;
  /// Placements of the op, with several micro-batches on the mesh whose first axis is the
  /// micro-batch.
  std::vector<DistAttr> inputs;
  std::vector<DistAttr> outputs;
  const MeshPtr& mesh;  // of ranks
  int64_t micro_batches = 1;
  int micro_batch = -1;  // -1: once a step
  ReshardOptions reshard = {};
};

/// Makes the task graphs of the regions of an op: lower_control in
/// compiler/lower/internal/region.h.
using RegionLowering = std::function<std::shared_ptr<const Control>(const RegionSite&)>;

struct PartitionOptions {
  int64_t micro_batches = 1;
  ReshardOptions reshard = {};
  RegionLowering lower_region = {};  // needed when the graph has a While or an If
};

/// Makes every op local and inserts the exchanges where producer and consumer differ. With several
/// micro-batches the program is a rolled one (RolledForm): an op whose factors the micro-batches
/// divide is lowered once, and is an instruction of each micro-batch; partial values over
/// micro-batches are accumulated as they are computed. The order of micro-batches, arena offsets
/// and tasks are left to the next passes.
///
///   requires  sharded = propagate(graph, ...), with several micro-batches on the same meshes with
///             the micro-batch as first axis
///   meshes    of ranks
///   ensures   each op has its kernel call with its factors divided; a value is resharded to one
///             placement once, however many ops read it, from that of its registers from which the
///             fewest bytes are sent; the next value of a variable has the variable's placement
///             Scalars that follow from the inputs of the step alone are computed on every mesh
///             that reads them and never sent
///             The numbers of instructions and registers do not depend on the number of
///             micro-batches, if there are several
///   throws    UserError (78) when an op needs the whole batch at once, or one micro-batch of what
///             is computed once a step
Program partition(const Graph& graph, const ShardedGraph& sharded, const Meshes& meshes,
                  const PartitionOptions& options);
/// With one micro-batch and without regions.
Program partition(const Graph& graph, const ShardedGraph& sharded);

/// A region of an op: its inputs are variables, which the op keeps.
struct RegionFrame {
  int micro_batch = -1;  // the micro-batch in which it is run; -1: once a step
  /// Its outputs are the next values of its first inputs; otherwise they are results.
  bool carries = false;
  RegionEnds ends;
};
Program partition_region(const Graph& region, const ShardedGraph& sharded, const Meshes& meshes,
                         const RegionFrame& frame, const PartitionOptions& options);

}  // namespace tessera
