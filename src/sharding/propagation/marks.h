// Finds the tensors, ops and modules that marks name.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/propagation/mark.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/propagation/op_sharding.h"
#include "sharding/propagation/rules.h"

namespace tessera {

/// A mark with the tensor or op that it names.
struct MarkedValue {
  ValueId value;
  DistAttr attr;
  const Mark* mark;
  std::vector<bool> open = {};  // by dim; empty: none is left to propagation
};
struct MarkedOp {
  OpId op;
  OpSharding sharding;
  const Mark* mark;
};
struct ResolvedMarks {
  std::vector<MarkedValue> values;
  std::vector<MarkedOp> ops;
};

/// Finds the tensors and ops that the marks name and parses their placements. A mark without
/// placement must also name something.
///   throws  UserError (78) for a pattern that names nothing (with the most similar name), a dim or
///           axis that does not exist, an axis that is used twice, a tensor or op that two marks
///           place differently (with both origins), or a Partial on an input or on a variable that
///           is not initialized to zero
ResolvedMarks resolve_marks(const Graph& graph, const Meshes& meshes,
                            const MeshAssignment& assignment, const std::vector<Mark>& marks,
                            const RuleLookup& rules = catalogue_rule);
/// May its placement be a partial value? An input may not, and a variable only if it begins as
/// zero: a zero is the partial value zero on every rank, and other values can be split in many
/// ways.
bool may_be_partial(const Graph& graph, ValueId value);
/// By value, how long marks say that copies live; empty when none says anything.
std::vector<std::optional<ReplicaLifetime>> copy_lives(const Graph& graph,
                                                       const std::vector<Mark>& marks);

/// The same with everything on one mesh.
ResolvedMarks resolve_marks(const Graph& graph, const MeshPtr& mesh,
                            const std::vector<Mark>& marks);

}  // namespace tessera
