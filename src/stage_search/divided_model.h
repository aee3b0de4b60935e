// What the units of a model cost where every op is divided in one way over the ranks of a stage.
// Prices of like ops are found once, so a further number of micro-batches or another shape of the
// mesh takes some hundreds of prices, whatever the number of layers.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "shard/sharded_graph.h"
#include "stage_search/model_line.h"

namespace tessera {

/// Of one unit, or the sum over the units of a stage, on the rank with the largest parts.
struct UnitCost {
  /// Seconds of one micro-batch: kernels, and exchanges inside of the stage.
  double forward = 0, input_gradient = 0, weight_gradient = 0;
  double once = 0;       // seconds of a step: the optimizer, and exchanges of gradients
  double variables = 0;  // bytes of variables and of gradients that are accumulated
  double kept = 0;       // bytes that the forward of one micro-batch keeps for its backward
  double passing = 0;    // bytes of one op beside them

  double micro_batch() const { return forward + input_gradient + weight_gradient; }
  UnitCost& operator+=(const UnitCost& other);
  /// Of sums over units, one that begins later; `passing` stays.
  UnitCost& operator-=(const UnitCost& other);
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
  ///   graph    it and the others outlive the result
  ///   sharded  of `graph`, on one mesh with micro-batches (shard/micro_batches.h)
  ///   line     of `serial`, of which passes made `graph`
  DividedModel(const Graph& graph, ShardedGraph sharded, const Graph& serial,
               const ModelLine& line);

  /// Do so many micro-batches divide everything that the sharding divides by them? It was made for
  /// one number of them.
  bool allows(int64_t micro_batches) const;

  /// By unit. The sizes of the axes may differ from those of the sharding.
  ///   requires  allows(ranks.micro_batches)
  std::vector<UnitCost> costs(const StageRanks& ranks) const;

 private:
  enum class Part { kForward, kInputGradient, kWeightGradient, kOnce };
  /// A kernel or a reshard of `item`, in a unit.
  struct Use {
    int item = 0, unit = 0;
    Part part = Part::kForward;
    auto operator<=>(const Use&) const = default;
  };
  using Uses = std::map<Use, int64_t>;  // how often
  struct Reshard {
    TensorType type;
    DistAttr from, to;
    bool operator==(const Reshard&) const = default;
  };
  /// Bytes of a value in a unit.
  struct Held {
    TensorType type;
    DistAttr attr;
    int unit = 0;
    bool is_variable = false;
  };

  void add_kernels();
  void add_reshards();
  void add_reshard(OpId op, ValueId value, const DistAttr& from, const DistAttr& to);
  void add_held(const Graph& serial);
  void add_divided();
  Part part_of(OpId op) const;
  int unit_of(OpId op) const { return line_.unit_of_op[originals_[op.index]]; }

  const Graph& graph_;
  const ShardedGraph sharded_;
  const ModelLine& line_;
  const std::vector<int> originals_;  // by op
  std::vector<OpId> kernels_;         // of which the others are like one
  std::vector<Reshard> reshards_;
  Uses kernel_uses_, reshard_uses_;
  std::map<int, std::vector<std::pair<DistAttr, int>>> copies_;  // by value: placements and units
  std::vector<Held> held_;
  /// What micro-batches divide: extents, and the units of which a part has a whole number.
  std::set<std::pair<int64_t, int64_t>> divided_;
};

}  // namespace tessera
