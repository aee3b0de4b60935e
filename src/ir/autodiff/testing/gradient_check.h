// For tests: compares the gradients of a graph with finite differences by the reference
// interpreter.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "ir/autodiff/gradient.h"
#include "ir/ops/interpreter.h"

namespace tessera {

/// One element of a gradient, computed by differentiate() and by finite differences.
struct GradientSample {
  std::string where;  // "w[3]"
  double analytic = 0;
  double numeric = 0;
  double tolerance = 0;  // the possible error of the finite difference itself
};

/// d loss / d x by central differences D(h) = (f(x + h) - f(x - h)) / 2h in doubles, refined by
/// Richardson: R = (4 D(h) - D(2h)) / 3.
///
///   tolerance  the terms of third order, which R removes, are (D(2h) - D(h)) / 3; the remaining
///              error is far smaller. Each difference has the rounding error of an evaluation: at
///              most a few units 2^-53 per op, of values as large as the loss and its summands
inline GradientSample finite_difference(const Graph& graph, ReferenceValues state,
                                        const std::string& name, size_t index) {
  const std::string loss = graph.value(graph.output("loss")).name;
  double& x = state.at(name).values[index];
  const double start = x;
  const auto at = [&](double value) {
    x = value;
    return interpret(graph, state).at(loss).values[0];
  };
  const double h = 1e-3;
  const double near = (at(start + h) - at(start - h)) / (2 * h);
  const double far = (at(start + 2 * h) - at(start - 2 * h)) / (4 * h);
  const double rounding =
      static_cast<double>(graph.ops().size()) * 4 * 0x1p-53 * (1 + std::abs(at(start))) / h;
  GradientSample sample{name + "[" + std::to_string(index) + "]", 0, (4 * near - far) / 3, 0};
  sample.tolerance = std::abs(far - near) / 3 + rounding;
  return sample;
}

/// Every element of the gradient of the output "loss" with respect to `names`.
///   requires  `state` holds the inputs and variables of `forward`, which has no backward ops yet
inline std::vector<GradientSample> sample_gradients(const Graph& forward,
                                                    const ReferenceValues& state,
                                                    const std::vector<std::string>& names) {
  Graph whole = forward;
  Builder builder(whole);
  std::vector<ValueId> targets;
  for (const std::string& name : names) targets.push_back(*whole.find_value(name));
  const std::vector<ValueId> gradients = differentiate(builder, whole.output("loss"), targets);
  verify(whole);
  const ReferenceValues values = interpret(whole, state);

  std::vector<GradientSample> samples;
  for (size_t i = 0; i < names.size(); ++i) {
    const ReferenceTensor& gradient = values.at(whole.value(gradients[i]).name);
    for (size_t element = 0; element < gradient.values.size(); ++element) {
      samples.push_back(finite_difference(forward, state, names[i], element));
      samples.back().analytic = gradient.values[element];
    }
  }
  return samples;
}

}  // namespace tessera
