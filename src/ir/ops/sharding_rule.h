// Sharding rules: how an operator may be divided. Propagation, partition, search and verification
// all read them. A rule is about factors, never about meshes.
//
// A factor is a named loop index of the operator, as in einsum. The rule maps each dim of each
// operand to a factor (or to none, and then that dim stays whole). It also defines the effect of
// dividing each factor, and the sets of operands in which the operator is jointly linear.
//
//     dot_general "mk,kn->mn":   ([m, k], [k, n]) -> ([m, n])   k: reduction(sum)   linear: {0} {1}
//     add:                       ([i, j], [i, j]) -> ([i, j])   linear: {0, 1}
//
// Source: Shardy's factor rules (openxla/shardy); Paddle's einsum rules; reference text in
// docs/sharding.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/reduce_op.h"
#include "base/tensor/split.h"

namespace tessera {

enum class FactorKind {
  /// Parts are independent: an operand with the factor is divided, one without it is needed whole.
  kParallel,
  /// Like parallel, but outputs without the factor, except those in made_whole, become
  /// Partial(reduce).
  kReduction,
  /// Like reduction, but each rank leaves out indices outside of its range: vocabulary lookup.
  kMaskedReduction,
  /// Never divided. It has a name for error messages.
  kWhole,
};
std::string_view to_text(FactorKind kind);  // "parallel", "reduction", "masked reduction", "whole"

struct Factor {
  std::string name;
  int64_t extent = 1;  // in units
  FactorKind kind = FactorKind::kParallel;
  ReduceOp reduce = ReduceOp::kSum;  // for a reduction
  /// For a reduction: the outputs without the factor that are not sums over it. Each part computes
  /// them whole, as it does the outputs of a parallel factor.
  std::vector<int> made_whole = {};
};

/// The factor of one dim of one operand: dim extent = chunks x factor extent x unit.
///
///   unit    a dim that fuses several dims is divided only between units
///   window  maps the extent of the factor to that of the dim. A part of the factor needs the
///           window of that part: the rows of x that the rows of a slice or a convolution read. The
///           parts of such an operand may overlap. Only inputs have windows
///   chunks  the dim consists of this many equal pieces, and a part of the factor is its range of
///           each piece. In [B, S] -> [B*S], factor S has B chunks of the result
///   others  further factors of a dim that merges several dims, or that may be divided in several
///           ways. At most one of all its factors is divided
struct DimFactor {
  int factor = -1;  // -1: none, the dim stays whole
  int64_t unit = 1;
  std::optional<Window> window = {};
  int64_t chunks = 1;
  std::vector<DimFactor> others = {};  // without others of their own

  bool operator==(const DimFactor&) const = default;
};

using OperandFactors = std::vector<DimFactor>;  // one per dim

/// The entry of `dim` for a factor; nullptr when the dim does not have the factor.
const DimFactor* find_factor(const DimFactor& dim, int factor);
bool has_factor(const OperandFactors& operand, int factor);
/// All entries of `dim`, in order; empty when it has no factor.
std::vector<DimFactor> choices_of(const DimFactor& dim);
/// The split of a dim whose factor is split by `factor`.
///   requires  dim.factor >= 0; a factor in units or chunks has no windows
Split split_of(const DimFactor& dim, const Split& factor);

struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<OperandFactors> inputs;
  std::vector<OperandFactors> outputs;
  /// Sets of input indices. When all inputs of a set and no others are Partial(sum) on an axis,
  /// every output is Partial(sum) on it. The empty set is that of an op that makes zeros.
  std::vector<std::vector<int>> linear;
  /// The text of a rule that was found by execution (ir/ops/discovery/discovery.h), with the
  /// findings that it cannot express. "" when the operator declares the rule.
  std::string discovered = {};

  /// Index of a factor by name, or -1.
  int find(std::string_view name) const;
  /// Does dividing the factor leave partial values of this output?
  bool reduces(int factor, int output) const;
  /// Do two factors share a dim? Then only one of them may be divided.
  bool excludes(int a, int b) const;
};

/// "0, 1", or "none" for a set without inputs.
std::string text_of_linear_set(const std::vector<int>& inputs);

/// The rule as text: "([m, k], [k, n]) -> ([m, n]) {k: reduction sum} {linear: 0; 1}". Units are
/// written as `h*64`, windows as `h~(-1:+1)`, chunks as `h/3`, several factors of a dim as `b*4 or
/// s/2`, and made_whole as `k: reduction sum but of 1`.
std::string to_text(const ShardingRule& rule);

}  // namespace tessera
