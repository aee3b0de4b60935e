// The sharding of one op over a mesh, and the placements of its operands that follow from it. Both
// are derived from the op's sharding rule.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/ops/operator.h"
#include "sharding/layout/dist_attr.h"

namespace tessera {

/// Calls `visit` for each of choices_of(dim), without a copy.
template <class Visit>
void for_each_choice(const DimFactor& dim, const Visit& visit) {
  if (dim.factor < 0) return;
  visit(dim);
  for (const DimFactor& other : dim.others) visit(other);
}

/// A mesh axis on which an op passes partial sums: the inputs of set `set` of its rule are
/// Partial(sum) on it, and so are its outputs.
struct LinearAxis {
  int axis = 0;
  int set = 0;

  bool operator==(const LinearAxis&) const = default;
};

/// The placement of an op: the axes of each factor, outermost first. A parallel factor may also be
/// divided by windows: the axes divide the extent of a later op, and this op computes the indices
/// that its part needs, in parts that overlap. So a halo is computed twice instead of exchanged.
///
///   invariant  an axis divides one factor or belongs to one linear set of an op; only parallel
///              factors have windows, because a reduction would add overlapping elements twice
struct OpSharding {
  MeshPtr mesh;
  std::vector<std::vector<int>> factor_axes;
  std::vector<LinearAxis> linear;
  /// By factor; the last window maps to the factor's extent. Empty: none.
  std::vector<std::vector<Window>> factor_windows = {};
  /// By factor: the number of equal pieces, each divided by the axes; empty: one.
  std::vector<int64_t> factor_chunks = {};

  static OpSharding replicated(MeshPtr mesh, const ShardingRule& rule);
  bool uses(int axis) const;
  std::span<const Window> windows_of(size_t factor) const;
  int64_t chunks_of(size_t factor) const;
  /// May this factor be divided? It may when no other factor that shares a dim with it is.
  bool may_divide(const ShardingRule& rule, int factor) const;
  ///   throws  InternalError for windows of a factor that is not parallel
  void set_windows(const ShardingRule& rule, size_t factor, std::vector<Window> windows);
  /// requires  chunks divide the factor's extent; the factor has no windows
  void set_chunks(const ShardingRule& rule, size_t factor, int64_t chunks);
  bool operator==(const OpSharding& other) const;
};

/// The placement that the op needs of input `index`, and the one in which it produces output
/// `index`.
DistAttr input_attr(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                    int index);
DistAttr output_attr(const OpView& op, const ShardingRule& rule, const OpSharding& sharding,
                     int index);

/// The factor to which the division of a dim with several factors belongs: one that gives exactly
/// that division, else one of which it may be chunks, else one with a window, else the first.
///   requires  the dim has a factor and `held` axes
const DimFactor& choice_for(const DimFactor& dim, const ShardingRule& rule,
                            const DimSharding& held);
/// The chunks of a factor that the placement of a dim implies; 1 if no chunks of the factor give
/// that placement.
int64_t chunks_of_factor(const DimFactor& dim, const ShardingRule& rule, const DimSharding& held);

/// The split of each factor, for the operator's kernel call.
///   requires  sharding.factor_axes of each factor of the rule
std::vector<Split> factor_splits(const ShardingRule& rule, const OpSharding& sharding);

/// The sharding under which the op takes these inputs unchanged.
///   throws  UserError (78) when the inputs give one factor different axes, give one axis two uses,
///           divide a whole factor, or are Partial where the op is not linear
OpSharding sharding_for_inputs(const OpView& op, const ShardingRule& rule,
                               const std::vector<DistAttr>& inputs);

/// The sharding under which the op produces these outputs. For an axis on which they are partial,
/// the first reduction of that kind is divided, or else the first linear set passes the partial
/// sums.
///   throws  UserError (78) as sharding_for_inputs, and for a Partial that nothing produces
OpSharding sharding_for_outputs(const OpView& op, const ShardingRule& rule,
                                const std::vector<DistAttr>& outputs);

/// A legal choice of placements on one axis.
struct Signature {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;
  bool operator==(const Signature&) const = default;
};
/// All signatures: one per factor that may be divided (reductions last), the replicated one, and
/// one per linear set.
std::vector<Signature> signatures(const OpView& op, const ShardingRule& rule);
/// "(S0,B)->S0": S dim, B replicated ("broadcast"), P partial (with its reduction when it is not a
/// sum: P(max)).
std::string to_text(const Signature& signature);

}  // namespace tessera
