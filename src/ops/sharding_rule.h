// Sharding rules: how an operator may be divided. The one place that says so; signatures,
// propagation, partition, search and verification all read it. It speaks of factors, never of
// meshes.
//
// A factor is a named loop index of the operator, as in einsum. The rule maps each dim of each
// operand to a factor (or to none, which leaves that dim whole), says what dividing the factor
// does, and which sets of operands the operator is jointly linear in.
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

#include "base/reduce_op.h"
#include "base/split.h"

namespace tessera {

enum class FactorKind {
  kParallel,   // parts are independent: an operand that has the factor is divided, one that has not
               // is needed whole
  kReduction,  // like parallel, but outputs without the factor become Partial(reduce), those of
               // made_whole excepted
  kMaskedReduction,  // like reduction, where each rank leaves out what lies outside its index
                     // range: vocabulary lookup
  kWhole,            // never divided; written so that a refusal can name it
};
std::string_view to_text(FactorKind kind);  // "parallel", "reduction", "masked reduction", "whole"

struct Factor {
  std::string name;
  int64_t extent = 1;  // in units
  FactorKind kind = FactorKind::kParallel;
  ReduceOp reduce = ReduceOp::kSum;  // of a reduction
  /// Of a reduction: outputs without the factor that are no sums over it. Each part makes them
  /// whole, as every output of a parallel factor.
  std::vector<int> made_whole = {};
};

/// The factor of one dim of one operand. dim extent = factor extent x unit: a dim that fuses
/// several is cut only between units. With a window (from the factor's extent to the dim's) a part
/// of the factor goes with the window of it: the rows of x that the rows of a slice or a
/// convolution need. The parts of such an operand may overlap. Windows are for inputs. With chunks
/// a part of the factor is its range of every one of so many equal pieces of the dim: dim extent =
/// chunks x factor extent x unit. In [B, S] -> [B*S] factor S has B chunks of the result. A dim
/// that merges several, or that may be seen in several ways, has `others`: of all its factors at
/// most one is divided.
struct DimFactor {
  int factor = -1;  // -1: none, the dim stays whole
  int64_t unit = 1;
  std::optional<Window> window = {};
  int64_t chunks = 1;
  std::vector<DimFactor> others = {};  // without others of their own

  bool operator==(const DimFactor&) const = default;
};

using OperandFactors = std::vector<DimFactor>;  // one per dim

/// What `dim` says of a factor; nullptr: it has not that factor.
const DimFactor* find_factor(const DimFactor& dim, int factor);
bool has_factor(const OperandFactors& operand, int factor);
/// All that it says, in order; nothing of a dim without factor.
std::vector<DimFactor> choices_of(const DimFactor& dim);
/// How a dim is divided when its factor is divided as `factor` says.
///   requires  dim.factor >= 0; a factor in units or chunks has no windows
Split split_of(const DimFactor& dim, const Split& factor);

struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<OperandFactors> inputs;
  std::vector<OperandFactors> outputs;
  /// Sets of input indices: when all inputs of a set are Partial(sum) on an axis and no other input
  /// is, every output is Partial(sum) on it.
  std::vector<std::vector<int>> linear;
  /// Of a rule that execution gave (ops/discovery/discovery.h): its text, and what of the finds it
  /// cannot say. "": the operator declares it.
  std::string discovered = {};

  /// Index of a factor by name, or -1.
  int find(std::string_view name) const;
  /// Does dividing the factor leave addends (or candidates of a maximum, ...) of this output?
  bool reduces(int factor, int output) const;
  /// Do two factors share a dim, so that only one of them may be divided?
  bool excludes(int a, int b) const;
};

/// "([m, k], [k, n]) -> ([m, n]) {k: reduction sum} {linear: 0; 1}", units as `h*64`, windows as
/// `h~(-1:+1)`, chunks as `h/3`, several factors of a dim as `b*4 or s/2`, made_whole as `k:
/// reduction sum but of 1`.
std::string to_text(const ShardingRule& rule);

}  // namespace tessera
