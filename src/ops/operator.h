// What an operator is. One file of its family defines all of it: types, gradient, sharding rule,
// work, kernel call and plain reference. The catalogue lists the operators; nothing else switches
// on their names.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/split.h"
#include "base/units.h"
#include "graph/graph.h"
#include "kernels/kernel.h"
#include "ops/sharding_rule.h"

namespace tessera {

class Builder;
struct Operator;

/// An op as its operator sees it: the types, not the graph. While types are inferred, `outputs` is
/// empty.
struct OpView {
  std::string_view name;
  const Attributes& attributes;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  const Operator* definition = nullptr;  // set by view(); lives as long as the graph
  std::vector<GraphPtr> regions = {};    // of While and If
};
/// throws  UserError (65) when no operator of the graph has this kind
OpView view(const Graph& graph, const Op& op);

/// Arithmetic and memory traffic of one execution on whole tensors.
struct Work {
  Flops flops{0};
  Bytes bytes{0};
};

/// A tensor of the plain reference: every element type as double.
struct ReferenceTensor {
  TensorType type;
  std::vector<double> values;
};
ReferenceTensor to_reference(const Tensor& tensor);
/// Rounds to the element type.
Tensor from_reference(const ReferenceTensor& tensor);

/// One op for the plain reference: inputs are filled, outputs have their types and zeros.
struct ReferenceCall {
  const OpView& op;
  std::vector<const ReferenceTensor*> inputs;
  std::vector<ReferenceTensor>& outputs;
};

/// What a gradient function sees: the forward op, and for each of its results the gradient that
/// flows in (none: it is zero).
struct GradientCall {
  const Graph& graph;
  const Op& op;
  std::vector<std::optional<ValueId>> output_gradients;  // at least one is given
  std::vector<bool> wanted;                              // which inputs need a gradient
};

/// Users define their own operators with it too: docs/add_an_operator.md. The parameters of an op
/// are its attributes.
struct Operator {
  std::string_view name;  // a literal: definitions are copied, names are not

  /// Result types.
  ///   throws  UserError (65) with the op's name and the types when the operands do not fit
  std::vector<TensorType> (*infer)(const OpView&) = nullptr;

  /// It throws nothing for an op that passed infer. nullptr: the rule is discovered by execution
  /// (ops/discovery/discovery.h).
  ShardingRule (*rule)(const OpView&) = nullptr;

  Work (*work)(const OpView&) = nullptr;

  /// The call that computes one rank's part: `factors[f]` says how factor f of the rule is
  /// divided. Operands have the local shapes that follow from the rule. Parameters that depend on
  /// the position of the part are LocalInts of these splits.
  KernelCall (*kernel)(const OpView&, std::span<const Split> factors) = nullptr;

  /// Plain loops over doubles, written to be read. Kernels, gradients and rules are tested against
  /// it.
  void (*reference)(const ReferenceCall&) = nullptr;

  /// The largest absolute error of each element of result `output` that one f32 evaluation on the
  /// same inputs may have. It follows from the unit roundoff 2^-24, the number of terms and the
  /// sum of their absolute values. `outputs` are the reference's. 0 for ops that only move data.
  std::vector<double> (*tolerance)(const ReferenceCall&, int output) = nullptr;

  /// Gradients by input (none where not wanted, or zero), built with `builder` whose scope is the
  /// forward op's name + ".grad". nullptr: no gradient flows through this operator.
  std::vector<std::optional<ValueId>> (*gradient)(Builder& builder, const GradientCall&) = nullptr;
};

/// The built-in operator called `name`.
///   throws  UserError (65) that names the nearest one
const Operator& find_operator(std::string_view name);
/// The operator that `graph` means by `name`: one of its own, or built in.
///   throws  UserError (65) that names the nearest one
const Operator& find_operator(const Graph& graph, std::string_view name);
/// All built-in operators that kernels compute, in the order of docs/operators: those without
/// regions (ops/control/control.h).
std::span<const Operator* const> all_operators();

}  // namespace tessera
