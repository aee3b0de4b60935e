// The definition of an operator. One file of its family defines all of it: types, gradient,
// sharding rule, work, kernel call and plain reference. The catalogue lists the operators; no other
// code switches on their names.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/split.h"
#include "base/units.h"
#include "ir/graph/graph.h"
#include "ir/ops/sharding_rule.h"
#include "kernels/kernel.h"

namespace tessera {

class Builder;
struct Operator;

/// The view that an operator has of its op: the types, not the graph. While types are inferred,
/// `outputs` is empty.
struct OpView {
  std::string_view name;
  const Attributes& attributes;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  const Operator* definition = nullptr;  // set by view(); lives as long as the graph
  std::vector<GraphPtr> regions = {};    // those of While and If
};
/// throws  UserError (65) when no operator of the graph has this kind
OpView view(const Graph& graph, const Op& op);

/// The arithmetic and the memory traffic of one execution on whole tensors.
struct Work {
  Flops flops{0};
  Bytes bytes{0};
};

/// A tensor of the plain reference, with elements of every type as doubles.
struct ReferenceTensor {
  TensorType type;
  std::vector<double> values;
};
ReferenceTensor to_reference(const Tensor& tensor);
/// The tensor with its elements rounded to the element type.
Tensor from_reference(const ReferenceTensor& tensor);

/// One op for the plain reference. The inputs are filled; the outputs have their types and zeros.
struct ReferenceCall {
  const OpView& op;
  std::vector<const ReferenceTensor*> inputs;
  std::vector<ReferenceTensor>& outputs;
};

/// The arguments of a gradient function: the forward op, and for each of its results the incoming
/// gradient (nullopt: it is zero).
struct GradientCall {
  const Graph& graph;
  const Op& op;
  std::vector<std::optional<ValueId>> output_gradients;  // at least one is given
  std::vector<bool> wanted;                              // by input: is its gradient needed?
};

/// What an op decides: results that jump where its operands pass a threshold or change their order.
/// Two runs whose operands differ by rounding may decide differently, and both are right.
struct Decision {
  std::vector<int> operands = {};  // those that decide, all of f32
  std::vector<int> results = {};   // those that jump; empty: the op decides nothing
};

/// What an op computes in where a program is in mixed precision (ir/precision/precision.h).
enum class PrecisionClass {
  kWide,    // f32
  kNarrow,  // 16 bits: a product, whose operands are many times smaller than its arithmetic
  kGiven,  // as its operands: no loss of range or digits; it adds or multiplies results of products
  kExact,  // as its operands, and a rounded result is the result of rounded operands
  kLookup,  // kExact; a data operand selects rows of parameters, which are activations then
};

/// An operator. Users define their own operators with it too: docs/add_an_operator.md. The
/// parameters of an op are its attributes.
struct Operator {
  std::string_view name;  // a literal: definitions are copied, names are not

  PrecisionClass precision = PrecisionClass::kWide;

  /// Infers the result types.
  ///   throws  UserError (65) with the op's name and the types when the operands do not fit
  std::vector<TensorType> (*infer)(const OpView&) = nullptr;

  /// The sharding rule; it throws nothing for an op that passed infer. nullptr: the rule is
  /// discovered by execution (ir/ops/discovery/discovery.h).
  ShardingRule (*rule)(const OpView&) = nullptr;

  Work (*work)(const OpView&) = nullptr;

  /// The call that computes one rank's part; factors[f] is the split of factor f of the rule.
  /// Operands have the local shapes that follow from the rule. Parameters that depend on the
  /// position of the part are LocalInts of these splits.
  KernelCall (*kernel)(const OpView&, std::span<const Split> factors) = nullptr;

  /// The computation in plain, readable loops over doubles. Kernels, gradients and rules are tested
  /// against it.
  void (*reference)(const ReferenceCall&) = nullptr;

  /// The largest absolute error that each element of result `output` may have in one f32 evaluation
  /// on the same inputs. It follows from the unit roundoff 2^-24, the number of terms and the sum
  /// of their absolute values. `outputs` of the call are those of the reference. 0 for ops that
  /// only move data.
  std::vector<double> (*tolerance)(const ReferenceCall&, int output) = nullptr;

  /// The gradients by input (nullopt where not wanted, or zero), written with `builder`, whose
  /// scope is the forward op's name + ".grad". nullptr: no gradient flows through this operator.
  std::vector<std::optional<ValueId>> (*gradient)(Builder& builder, const GradientCall&) = nullptr;

  /// What the op decides. nullptr: its results are continuous in all operands of f32.
  Decision (*decision)(const OpView&) = nullptr;
};

/// What `op` decides; nothing for an op with regions.
Decision decision_of(const Graph& graph, const Op& op);

/// The built-in operator called `name`.
///   throws  UserError (65) with the most similar name
const Operator& find_operator(std::string_view name);
/// The operator that `name` denotes in `graph`: one of the graph's own, or a built-in one.
///   throws  UserError (65) with the most similar name
const Operator& find_operator(const Graph& graph, std::string_view name);
/// All built-in operators that kernels compute, which are those without regions
/// (ir/ops/control/control.h), in the order of docs/operators.
std::span<const Operator* const> all_operators();

}  // namespace tessera
