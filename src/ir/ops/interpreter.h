// The reference interpreter: runs a whole serial graph in plain loops over doubles. It shares no
// code with lower and runtime.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/ops/operator.h"

namespace tessera {

/// Values by name: inputs and variables before a step, all values after it.
using ReferenceValues = std::map<std::string, ReferenceTensor>;

struct InterpreterOptions {
  /// Seed of a perturbation (0: none). Every result of every op is changed by half to all of its
  /// tolerance, up or down; what underflows becomes zero. The difference to a plain run bounds the
  /// effect of rounding alone on any later tensor. Tolerances of whole programs are derived from
  /// it.
  uint64_t perturb = 0;
  /// When perturbing: elements that differ only along dims chosen by the seed change alike, as
  /// equal operands round alike. Their errors add up in a sum, where independent ones would cancel.
  bool alike = false;
  /// When set, it receives the largest tolerance of each op's results by name, for one evaluation
  /// on the same operands.
  std::map<std::string, double>* tolerances = nullptr;
  /// Further errors of the elements of a value, by name. For instance, a run may round partial
  /// values that are larger than their sum.
  const std::map<std::string, double>* more_rounding = nullptr;
  /// When perturbing: the results of these values, by name, are changed by the given share of each
  /// element, all of a tensor in one direction. Ranks that round partial values of nearly equal
  /// elements err in one direction, which adds up in a sum of them.
  const std::map<std::string, double>* common_share = nullptr;
  /// The direction of common_share: away from zero, or up.
  bool away_from_zero = true;
  /// When set: operands as a run has them, by name. An op takes the results that it decides
  /// (Operator::decision) from these operands if all that decide are here, so that it decides as
  /// that run does. Its other results and operands are those of the interpreter.
  const ReferenceValues* decided_on = nullptr;
  /// Rounds every f32 result to f32, as a run does. Values that differ by less become equal.
  bool round = false;
};

/// Every value of one step. Of an op with regions it returns only the results.
///
///   state     inputs and variables by name
///   throws    UserError (66) when one is missing; InternalError when a type differs
///   time      plain loops: some 0.2 to 2 GFLOP/s
ReferenceValues interpret(const Graph& graph, const ReferenceValues& state,
                          const InterpreterOptions& options = {});

/// One op of a graph.
///   operands  its inputs, in their order
///   returns   its results, in their order
///   threads   any number at a time, with `tolerances` of their own
std::vector<ReferenceTensor> interpret_op(const Graph& graph, const Op& op,
                                          std::vector<const ReferenceTensor*> operands,
                                          const InterpreterOptions& options);

/// The largest difference between elements of two tensors of one type. Two NaNs do not differ.
double largest_change(const ReferenceTensor& a, const ReferenceTensor& b);

/// The initial values of the variables, sampled as every rank samples its part.
ReferenceValues initial_variables(const Graph& graph, uint64_t seed);

/// The variables after the step with the values `values`.
ReferenceValues next_variables(const Graph& graph, const ReferenceValues& values);

}  // namespace tessera
