// Marks and the tensors and ops that they name.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "shard/mark.h"
#include "shard/mesh_assignment.h"
#include "shard/op_sharding.h"
#include "shard/rules.h"

namespace tessera {

/// A mark with the tensor or op that it names.
struct MarkedValue {
  ValueId value;
  DistAttr attr;
  const Mark* mark;
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

/// Finds the tensors and ops that the marks name and reads their placements. A mark without
/// placement must name something, too.
///   throws  UserError (78): a pattern that names nothing (with the nearest name), a dim or axis
///   that
///           does not exist, an axis used twice, a tensor or op that two marks place differently
///           (with both origins), a Partial on an input, or on a variable that is not initialized
///           to zero
ResolvedMarks resolve_marks(const Graph& graph, const Meshes& meshes,
                            const MeshAssignment& assignment, const std::vector<Mark>& marks,
                            const RuleLookup& rules = catalogue_rule);
/// With everything on one mesh.
ResolvedMarks resolve_marks(const Graph& graph, const MeshPtr& mesh,
                            const std::vector<Mark>& marks);

}  // namespace tessera
