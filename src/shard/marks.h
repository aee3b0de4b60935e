// What the user says about the division: marks on tensors and ops, by name or name pattern.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "shard/mesh_assignment.h"
#include "shard/op_sharding.h"
#include "shard/rules.h"

namespace tessera {

/// One mark. `placement` is text in any of the notations:
///
///   tensors  P("dp", None, "tp") | Shard(0), Replicate() | tp: Shard(1)
///   ops      one of these for each input, in brackets: [P("dp"), P(None,"tp")], [(dp: Shard(0),
///   tp: Partial(sum)), Replicate()], or the
///            parts per dim of each input: ((4,1),(1,1))
struct Mark {
  enum class Kind { kTensor, kOp };
  Kind kind = Kind::kTensor;
  std::string pattern;    // as matches() of base/text.h takes it
  std::string placement;  // "": left open
  std::string origin;     // where it was written: "plan.json marks[2]", "code"
  std::string mesh = {};  // the stage that it is on, by name; "": left open

  bool operator==(const Mark&) const = default;
};

inline Mark shard_tensor(std::string pattern, std::string placement, std::string origin = "code") {
  return {Mark::Kind::kTensor, std::move(pattern), std::move(placement), std::move(origin)};
}
inline Mark shard_op(std::string pattern, std::string placement, std::string origin = "code") {
  return {Mark::Kind::kOp, std::move(pattern), std::move(placement), std::move(origin)};
}
/// The ops whose names fit run on the mesh called `mesh`.
inline Mark stage(std::string pattern, std::string mesh, std::string origin = "code") {
  return {Mark::Kind::kOp, std::move(pattern), "", std::move(origin), std::move(mesh)};
}

/// A mark that has found its tensor or op.
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

/// Finds what the marks name and reads their placements.
///
///   note    what a mark leaves open (its placement) is passed over; its pattern must fit something
///   all the same throws  UserError (78): a pattern that names nothing (with the nearest name), a
///   dim or axis that is not there, an axis used twice, a
///           tensor or op that two marks place differently (with both origins), a Partial on an
///           input, or on a variable that does not begin as zero
ResolvedMarks resolve_marks(const Graph& graph, const Meshes& meshes,
                            const MeshAssignment& assignment, const std::vector<Mark>& marks,
                            const RuleLookup& rules = catalogue_rule);
/// With everything on one mesh.
ResolvedMarks resolve_marks(const Graph& graph, const MeshPtr& mesh,
                            const std::vector<Mark>& marks);

}  // namespace tessera
