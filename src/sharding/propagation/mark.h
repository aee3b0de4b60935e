// The user's decisions about the division: a mark on tensors, ops or modules, by name or name
// pattern.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

/// How long a rank keeps a copy of a value in another placement than the value's own.
enum class ReplicaLifetime {
  kStep,  // once made, until its last reader of the step
  kPass,  // a forward or backward (of one micro-batch) makes it anew and keeps it until its end
};
std::string_view to_text(ReplicaLifetime life);  // "step", "pass"

/// One mark. `placement` is text in any of the notations:
///
///   tensors  P("dp", None, "tp") | Shard(0), Replicate() | tp: Shard(1) | [@dp, @tp/3]
///   ops      one of these for each input, in brackets: [P("dp"), P(None,"tp")], [(dp: Shard(0),
///            tp: Partial(sum)), Replicate()], or the parts per dim of each input: ((4,1),(1,1));
///            after an arrow those of the results: [P("dp"), P()] -> [P("dp", "tp")], -> [P()]
///   modules  the same for what enters and what leaves them (sharding/propagation/module_marks.h)
struct Mark {
  enum class Kind { kTensor, kOp, kModule };
  Kind kind = Kind::kTensor;
  std::string pattern;    // a pattern of matches() in base/text/text.h
  std::string placement;  // "": left open
  std::string origin;     // the position of the mark: "plan.json marks[2]", "code"
  std::string mesh = {};  // the name of its stage; "": left open
  /// Of the tensors; a step where no mark says it. Of a variable that a mark says it of, the
  /// placement is where the variable rests: its ops read copies gathered over the axes that divide
  /// inputs, and the optimizer updates what rests.
  std::optional<ReplicaLifetime> copies = {};

  bool operator==(const Mark&) const = default;
};
/// "tensor", "op", "module".
std::string_view to_text(Mark::Kind kind);

inline Mark shard_tensor(std::string pattern, std::string placement, std::string origin = "code") {
  return {Mark::Kind::kTensor, std::move(pattern), std::move(placement), std::move(origin)};
}
inline Mark shard_op(std::string pattern, std::string placement, std::string origin = "code") {
  return {Mark::Kind::kOp, std::move(pattern), std::move(placement), std::move(origin)};
}
inline Mark shard_module(std::string pattern, std::string placement, std::string origin = "code") {
  return {Mark::Kind::kModule, std::move(pattern), std::move(placement), std::move(origin)};
}
/// Says how long copies of the tensors live.
inline Mark copies_live_for(ReplicaLifetime life, std::string pattern,
                            std::string origin = "code") {
  return {Mark::Kind::kTensor, std::move(pattern), "", std::move(origin), "", life};
}
/// Runs the ops whose names match on the mesh called `mesh`.
inline Mark stage(std::string pattern, std::string mesh, std::string origin = "code") {
  return {Mark::Kind::kOp, std::move(pattern), "", std::move(origin), std::move(mesh)};
}

}  // namespace tessera
