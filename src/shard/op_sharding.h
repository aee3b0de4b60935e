// How one op is divided over a mesh, and what follows for its operands. Everything is derived from the op's sharding rule.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/operator.h"
#include "shard/dist_attr.h"

namespace tessera {

/// A mesh axis on which an op passes partial sums through: the inputs of set `set` of its rule are Partial(sum) on it, and so are its
/// outputs.
struct LinearAxis {
  int axis = 0;
  int set = 0;

  bool operator==(const LinearAxis&) const = default;
};

/// The op-side attribute: the axes of each factor, outermost first. A parallel factor may also be divided by windows: the axes divide the
/// extent of a later op, and this one makes what that needs, in parts that overlap. So a halo is computed twice instead of exchanged.
///
///   invariant  an axis serves one factor or one linear set of an op; only parallel factors have windows: of a reduction they would add
///              what overlaps twice
struct OpSharding {
  MeshPtr mesh;
  std::vector<std::vector<int>> factor_axes;
  std::vector<LinearAxis> linear;
  std::vector<std::vector<Window>> factor_windows = {};  // by factor, the last to its extent; empty: none

  static OpSharding replicated(MeshPtr mesh, const ShardingRule& rule);
  bool uses(int axis) const;
  std::span<const Window> windows_of(size_t factor) const;
  /// throws InternalError for windows of a factor that is not parallel
  void set_windows(const ShardingRule& rule, size_t factor, std::vector<Window> windows);
  bool operator==(const OpSharding& other) const;
};

/// What the op needs of input `index`, and what it makes of output `index`.
DistAttr input_attr(const OpView& op, const ShardingRule& rule, const OpSharding& sharding, int index);
DistAttr output_attr(const OpView& op, const ShardingRule& rule, const OpSharding& sharding, int index);

/// How each factor is divided, for the operator's kernel call.
///   requires  sharding.factor_axes of each factor of the rule
std::vector<Split> factor_splits(const ShardingRule& rule, const OpSharding& sharding);

/// The sharding under which the op has these inputs as they are.
///   throws  UserError (78): the inputs give one factor different axes, one axis two uses, divide a whole factor, or are Partial where the
///   op is not linear
OpSharding sharding_for_inputs(const OpView& op, const ShardingRule& rule, const std::vector<DistAttr>& inputs);

/// A legal choice of placements on one axis.
struct Signature {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;
  bool operator==(const Signature&) const = default;
};
/// All of them: one a factor that may be divided (reductions last), the replicated one, and one a linear set.
std::vector<Signature> signatures(const OpView& op, const ShardingRule& rule);
/// "(S0,B)->S0": S dim, B replicated ("broadcast"), P partial (with its reduction when it is not a sum: P(max)).
std::string to_text(const Signature& signature);

}  // namespace tessera
