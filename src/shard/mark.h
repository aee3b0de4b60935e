// The user's decisions about the division: a mark on tensors or ops, by name or name pattern.
#pragma once

#include <string>
#include <utility>

namespace tessera {

/// One mark. `placement` is text in any of the notations:
///
///   tensors  P("dp", None, "tp") | Shard(0), Replicate() | tp: Shard(1)
///   ops      one of these for each input, in brackets: [P("dp"), P(None,"tp")], [(dp: Shard(0),
///            tp: Partial(sum)), Replicate()], or the parts per dim of each input: ((4,1),(1,1))
struct Mark {
  enum class Kind { kTensor, kOp };
  Kind kind = Kind::kTensor;
  std::string pattern;    // a pattern of matches() in base/text.h
  std::string placement;  // "": left open
  std::string origin;     // the position of the mark: "plan.json marks[2]", "code"
  std::string mesh = {};  // the name of its stage; "": left open

  bool operator==(const Mark&) const = default;
};

inline Mark shard_tensor(std::string pattern, std::string placement, std::string origin = "code") {
  return {Mark::Kind::kTensor, std::move(pattern), std::move(placement), std::move(origin)};
}
inline Mark shard_op(std::string pattern, std::string placement, std::string origin = "code") {
  return {Mark::Kind::kOp, std::move(pattern), std::move(placement), std::move(origin)};
}
/// Runs the ops whose names match on the mesh called `mesh`.
inline Mark stage(std::string pattern, std::string mesh, std::string origin = "code") {
  return {Mark::Kind::kOp, std::move(pattern), "", std::move(origin), std::move(mesh)};
}

}  // namespace tessera
