// The judge: runs a whole serial graph in plain loops over doubles. It shares no code with lower
// and runtime.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/operator.h"

namespace tessera {

/// Values by name: inputs and variables before a step, anything after it.
using ReferenceValues = std::map<std::string, ReferenceTensor>;

struct InterpreterOptions {
  /// Moves every result of every op by half to all of its tolerance, up or down, drawn by this seed
  /// (0: none). The difference to a plain run is what rounding alone may do to any later tensor:
  /// tolerances of whole programs are derived from it.
  uint64_t perturb = 0;
  /// When perturbing: elements that differ only along dims drawn by the seed move alike, as equal
  /// operands round alike. Their errors add up in a sum, where independent ones would cancel.
  bool alike = false;
  /// When set: gets the largest tolerance of each op's results by name, for one evaluation on the
  /// same operands.
  std::map<std::string, double>* tolerances = nullptr;
  /// By value: what a run may be off in its elements besides, such as where it rounds addends that
  /// are larger than their sum.
  const std::map<std::string, double>* more_rounding = nullptr;
  /// Rounds every f32 result to f32, as a run does: what differs by less than that becomes equal.
  bool round = false;
};

/// Every value of one step; of an op with regions its results only.
///
///   state   inputs and variables by name
///   throws  UserError (66) when one is missing; InternalError when a type differs
///   time    plain loops: some 0.2 to 2 GFLOP/s
ReferenceValues interpret(const Graph& graph, const ReferenceValues& state,
                          const InterpreterOptions& options = {});

/// The largest difference of two tensors of one type, element by element; two that are both not a
/// number do not differ.
double largest_change(const ReferenceTensor& a, const ReferenceTensor& b);

/// The variables as they begin: drawn under their names, as every rank draws its slice.
ReferenceValues initial_variables(const Graph& graph, uint64_t seed);

/// The variables after the step whose values `values` holds.
ReferenceValues next_variables(const Graph& graph, const ReferenceValues& values);

}  // namespace tessera
