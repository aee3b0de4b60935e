// What the units of a model cost where every op is divided in one way over the ranks of
// a stage. Prices of identical ops are found once, so a further number of micro-batches or another
// shape of the mesh takes some hundreds of prices, whatever the number of layers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cluster/cost/cost_model.h"
#include "ir/graph/graph.h"
#include "planner/pipeline/internal/register_spans.h"
#include "planner/pipeline/layer_sequence.h"
#include "sharding/propagation/kernel_price.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// Of one unit, or the sum over the units of a stage, on the rank with the largest parts.
struct UnitCost {
  /// Seconds of one micro-batch: kernels, and exchanges inside of the stage.
  double forward = 0, input_gradient = 0, weight_gradient = 0;
  double once = 0;       // seconds of a step: the optimizer, and exchanges of gradients
  double joined = 0;     // of those, what waits for all units: an update by a clipped norm
  double variables = 0;  // bytes of variables and of gradients that are accumulated
  double sums = 0;       // of those, the gradients
  double kept = 0;       // bytes that the forward of one micro-batch keeps for its backward
  double passing = 0;    // the most bytes at one op of a micro-batch beside those
  double late = 0;       // bytes that the weight gradients of one micro-batch read
  double updating = 0;   // the most bytes of an op that runs once, beside the variables
  double arriving = 0;   // bytes that a stage keeps in addition where it begins at the unit

  double micro_batch() const { return forward + input_gradient + weight_gradient; }
};

/// The costs of the stages that units may form.
class StageSums {
 public:
  explicit StageSums(const std::vector<UnitCost>& units);

  /// Of the units [first, end). What is kept for the backward of units after an op is free when it
  /// runs, so the most bytes are in flight at one of the last units or where most of them pass.
  ///   time  O(1)
  UnitCost sum(int first, int end) const;

 private:
  /// The largest of a range of numbers.
  ///   time    O(n log n) to make, O(1) a call
  ///   source  Bender and Farach-Colton, LATIN 2000, the sparse table
  class Largest {
   public:
    explicit Largest(std::vector<double> numbers);
    double max(int first, int end) const;

   private:
    std::vector<std::vector<double>> rows_;  // by exponent: of 2^exponent numbers
  };
  static std::vector<UnitCost> sums_of(const std::vector<UnitCost>& units);
  std::vector<double> passing_of(const std::vector<UnitCost>& units) const;

  std::vector<UnitCost> before_;  // by unit: the sum of those before it
  std::vector<double> arriving_;  // by unit
  Largest passing_, updating_;
};

/// Where and with how many micro-batches a model runs.
struct StageRanks {
  MeshPtr mesh;  // of the axes of the sharding, without micro-batches
  int64_t micro_batches = 1;
  CostModel cost;
  std::vector<DeviceCost> devices = {};  // of each rank; empty: all have that of the costs
};

class DividedModel {
 public:
  ///   graph    it, `serial` and `line` outlive the result
  ///   sharded  of `graph`, on one mesh with micro-batches (sharding/propagation/micro_batches.h);
  ///            it is not kept
  ///   line     of `serial`, of which passes made `graph`
  DividedModel(const Graph& graph, ShardedGraph sharded, const Graph& serial,
               const LayerSequence& sequence);

  /// Do so many micro-batches divide everything that the sharding divides by them? It was made for
  /// one number of them.
  bool allows(int64_t micro_batches) const;

  /// By unit. The sizes of the axes may differ from those of the sharding.
  ///   requires  allows(ranks.micro_batches)
  std::vector<UnitCost> costs(const StageRanks& ranks) const;

 private:
  /// A kernel or a reshard of `item`, in a unit.
  struct Use {
    int item = 0, unit = 0;
    StepPart part = StepPart::kForward;
    bool is_joined = false;
    auto operator<=>(const Use&) const = default;
  };
  using Uses = std::map<Use, int64_t>;  // how often
  struct Reshard {
    TensorType type;
    DistAttr from, to;
    bool operator==(const Reshard&) const = default;
  };
  /// A value that is summed over the micro-batches.
  struct Sum {
    TensorType type;
    DistAttr attr;
    bool operator==(const Sum&) const = default;
  };
  void add_kernels();
  void add_reshards();
  void add_reshard(OpId op, ValueId value, const DistAttr& from, const DistAttr& to);
  void add_sum(OpId op, ValueId value, const DistAttr& made);
  void add_divided();
  /// By item.
  std::vector<KernelDemand> kernel_demands(const MeshPtr& timed,
                                           const std::vector<PricedRank>& ranks) const;
  std::vector<double> reshard_seconds(const StageRanks& ranks) const;
  std::vector<double> sum_seconds(const StageRanks& ranks,
                                  const std::vector<PricedRank>& priced) const;
  void find_parts();
  void find_joined();
  StepPart part_of(OpId op) const { return parts_[op.index]; }
  int unit_of(OpId op) const { return units_[op.index]; }
  Use use_of(int item, OpId op, StepPart part) const {
    return {item, unit_of(op), part, is_joined_[op.index]};
  }

  const Graph& graph_;
  std::optional<ShardedGraph> sharded_;  // while it is constructed
  const LayerSequence& sequence_;
  const std::vector<int> units_;  // by op
  std::vector<StepPart> parts_;   // by op
  std::vector<bool> is_joined_;   // by op: does it wait for the optimizer ops of all units?
  std::vector<OpId> kernels_;     // of which the others are like one
  struct KernelSharding {
    OpSharding sharding;
    ShardingRule rule;
  };
  std::vector<KernelSharding> kernel_shardings_;  // by kernel
  std::vector<int> kernel_of_;                    // by op: one of them; -1: it has no results
  std::vector<Reshard> reshards_;
  std::vector<Sum> sums_;
  Uses kernel_uses_, reshard_uses_, sum_uses_;
  /// By value: placements and units; while it is constructed.
  std::map<int, std::vector<std::pair<DistAttr, int>>> copies_;
  std::optional<RegisterSpans> registers_;
  /// What micro-batches divide: extents, and the units of which a part has a whole number.
  std::set<std::pair<int64_t, int64_t>> divided_;
};

}  // namespace tessera
