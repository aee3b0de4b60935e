// The costs of all stages that a pipeline of one number of micro-batches may have.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/pipeline/device_runs.h"
#include "planner/pipeline/internal/divided_model.h"
#include "planner/pipeline/layer_sequence.h"
#include "simulator/step/deployment.h"

namespace tessera {

/// A way to divide a stage over its ranks.
struct StageSharding {
  const DividedModel* model = nullptr;
  MeshPtr mesh;  // of the ranks 0, 1, ...
};

/// `mesh` on the ranks from `first` on.
MeshPtr mesh_from(const Mesh& mesh, Rank first);

/// The link between the ranks of two lists that have the same place in them, as all of them send at
/// once.
///   requires  the lists have one length and nothing in common
LinkCost link_between(const std::vector<Rank>& from, const std::vector<Rank>& to,
                      const Deployment& deployment);

/// What the ranks of a stage are to its model.
StageRanks stage_ranks(MeshPtr mesh, const Deployment& deployment, int64_t micro_batches);

class SegmentCosts {
 public:
  /// All but `micro_batches` outlive it.
  ///   time  that of DividedModel::costs for each stage sharding and kind of run of its size
  SegmentCosts(const LayerSequence& sequence, const std::vector<StageSharding>& stage_shardings,
               const Deployment& deployment, const DeviceRuns& runs, int64_t micro_batches);

  /// The stage shardings that have the size of the runs of a kind.
  const std::vector<int>& stage_shardings(int kind) const { return stage_shardings_of_[kind]; }
  /// Of the units [first, end) on a run of this kind.
  UnitCost price(int kind, int stage_sharding, int first, int end) const;
  /// The same on ranks on which the units have these costs.
  UnitCost price(const StageSums& units, int stage_sharding, int first, int end) const;
  /// The bytes of a device that are left for values, the least of the run.
  double capacity(int kind) const { return capacities_[kind]; }
  /// The seconds in which a rank from `first` on receives what one micro-batch needs at the
  /// beginning of a unit: from the rank before it, over a link that all ranks of the stage share
  /// when it leaves a machine. A stage of several machines has the ports of all of them.
  double transfer(int stage_sharding, int unit, Rank first) const;
  /// The same where the stage before has the `from_size` ranks from `from` on; 0 where they are
  /// those of the stage itself.
  double transfer(int stage_sharding, int unit, Rank first, Rank from, int from_size) const;
  /// The seconds in which the ranks of a run send n bytes together to those of another one,
  /// each of which receives a part.
  ///   requires  the runs differ
  double message(Bytes bytes, Rank from, int from_size, Rank to, int to_size) const;
  /// The same over a link that no others share.
  double transfer(int stage_sharding, int unit, const LinkCost& link) const;

 private:
  /// Of one micro-batch, that a rank receives at the beginning of a unit.
  double cut_bytes(int stage_sharding, int unit) const;
  /// From the last rank of a run to the first one of another, of `size` ranks.
  LinkCost link(Rank from, int from_size, Rank first, int size) const;
  void add_machine_arrivals(const DeviceRuns& runs);

  const LayerSequence& sequence_;
  const std::vector<StageSharding>& stage_shardings_;
  const Deployment& deployment_;
  const int64_t micro_batches_;
  std::vector<std::vector<int>> stage_shardings_of_;  // by kind
  std::vector<double> capacities_;                    // by kind
  /// The link from the rank before; do all ranks of a stage share it?
  struct Arrival {
    LinkCost link = {};
    bool is_shared = false;
  };
  std::vector<Arrival> arrivals_;  // by rank
  /// By first rank and size of a stage of several machines: the link from the ranks before it, as
  /// all of them send at once.
  std::map<std::pair<Rank, int>, LinkCost> machine_arrivals_;
  std::vector<double> parts_;                                // by way: of activations
  std::vector<std::vector<std::optional<StageSums>>> sums_;  // by kind and way
};

}  // namespace tessera
