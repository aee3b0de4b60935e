// A graph with the placements that propagation has chosen.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/ops/sharding_rule.h"
#include "sharding/layout/dist_attr.h"
#include "sharding/propagation/mark.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/propagation/op_sharding.h"
#include "sharding/propagation/rules.h"

namespace tessera {

/// A note for the user:
///
///   conflict    an op cannot use a marked tensor as the mark places it
///   reshard     the same of a tensor without mark, whose axes another operand took
///   fallback    an op needs a dim whole that is divided
///   discovered  the rule of an op was discovered by execution
///   passes      the plan was made for the graph that other passes left
///   waste       ranks repeat the work of others, or have none (compiler/lower/redundant_work.h)
struct ShardingNote {
  enum class Kind { kConflict, kReshard, kFallback, kDiscovered, kPasses, kWaste };
  Kind kind = Kind::kFallback;
  std::string op;
  std::string text;
};

std::string_view to_text(ShardingNote::Kind kind);  // "conflict", "waste", ...

/// A placement for each value (tensor side) and a sharding for each op (op side). Where the two
/// differ, lowering inserts a reshard.
struct ShardedGraph {
  Meshes meshes;
  MeshAssignment stages;         // the mesh of each op and value
  std::vector<DistAttr> values;  // on the mesh to which the value is assigned
  // The mark, the op and operand, or the plan's sharding, from which the placement follows; "" when
  // no mark reaches the value.
  std::vector<std::string> value_reasons;
  std::vector<ReplicaLifetime> copies;  // by value: of what it is resharded to; empty: all kStep
  std::vector<OpSharding> ops;
  OpRules rules;
  std::vector<ShardingNote> notes;

  const DistAttr& at(ValueId value) const { return values[value.index]; }
  const OpSharding& at(OpId op) const { return ops[op.index]; }
  ReplicaLifetime replica_lifetime(ValueId value) const {
    return copies.empty() ? ReplicaLifetime::kStep : copies[value.index];
  }
};

/// The placements of the inputs and outputs of a region (ir/ops/control/control.h), all on the mesh
/// of the region's op. Propagation keeps them.
struct RegionEnds {
  std::vector<DistAttr> inputs;
  std::vector<DistAttr> outputs;
};

}  // namespace tessera
