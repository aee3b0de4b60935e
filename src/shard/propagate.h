// From a few marks to the placement of everything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "shard/marks.h"
#include "shard/op_sharding.h"
#include "shard/rules.h"

namespace tessera {

/// Something that the user should know: a placement that could not be kept, and what was done
/// instead; a rule that nobody wrote.
struct ShardingNote {
  enum class Kind { kConflict, kFallback, kDiscovered };
  Kind kind = Kind::kFallback;
  std::string op;
  std::string text;
};

/// A graph with a placement for each value (tensor side) and each op (op side). Where they differ,
/// a reshard is due.
struct ShardedGraph {
  Meshes meshes;
  MeshAssignment stages;                   // which of them each op and value is on
  std::vector<DistAttr> values;            // at home
  std::vector<std::string> value_reasons;  // the mark, or the op and operand that it came from; ""
                                           // when nothing divides it
  std::vector<OpSharding> ops;
  std::vector<ShardingRule> rules;  // of each op
  std::vector<ShardingNote> notes;

  const DistAttr& of(ValueId value) const { return values[value.index]; }
  const OpSharding& of(OpId op) const { return ops[op.index]; }
};

/// Chooses a placement for every value and op whose placement the user left open.
///
///   ensures  marked tensors keep their placement and marked ops theirs; a variable and its next
///   value lie alike; no axis serves two
///            factors of one op; the result does not depend on the order of the marks; a second run
///            changes nothing; partial sums are passed on only through linear ops whose input has
///            no other use, and are otherwise reduced where they are made
///   leaves   differences between producer and consumer: lowering reshards there
///   throws   UserError (78) from resolve_marks
///   time     O(ops x factors) a round; every round but the last gives an axis to a dim
///   meshes   each op and value gets its mesh first (assign_meshes); an axis reaches another mesh
///   only where that has an axis of the same name and size
ShardedGraph propagate(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks,
                       const RuleLookup& rules = catalogue_rule);
/// With everything on one mesh.
ShardedGraph propagate(const Graph& graph, MeshPtr mesh, const std::vector<Mark>& marks,
                       const RuleLookup& rules = catalogue_rule);

/// Of a region of an op (ops/control/control.h), all on the op's mesh.
///
///   inputs, outputs  where each lies, as the op has it: kept
struct RegionEnds {
  std::vector<DistAttr> inputs;
  std::vector<DistAttr> outputs;
};
ShardedGraph propagate_region(const Graph& region, MeshPtr mesh, const RegionEnds& ends);

/// One line a value: "blocks.0.attn.q.weight f32[128, 4@tp, 32]", in program order.
std::string print_placements(const Graph& graph, const ShardedGraph& sharded);

}  // namespace tessera
