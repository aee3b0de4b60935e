// For tests: one layer on given inputs, evaluated by the reference interpreter.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/tensor_types.h"
#include "ir/models/layers.h"
#include "ir/ops/interpreter.h"

namespace tessera {

/// Evaluates one layer on given inputs.
struct Bench {
  Graph graph;
  Builder builder{graph, 3};
  ReferenceValues state;
  LayerContext context{builder, {}, true};

  ValueId input(const std::string& name, const TensorType& type, std::vector<double> values) {
    state[name] = {type, std::move(values)};
    return builder.input(name, type);
  }
  void set(const std::string& name, std::vector<double> values) {
    const TensorType type = graph.type(*graph.find_value(name));
    ASSERT_EQ(static_cast<int64_t>(values.size()), element_count(type.shape)) << name;
    state[name] = {type, std::move(values)};
  }
  std::vector<double> value(ValueId id) {
    for (auto& [name, tensor] : initial_variables(graph, 0)) state.emplace(name, tensor);
    return interpret(graph, state).at(graph.value(id).name).values;
  }
};

/// `count` numbers of the standard normal distribution, determined by `name`.
inline std::vector<double> normal_numbers(const std::string& name, int64_t count) {
  const RandomStream stream(random_key(11, name), 0);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(stream.normal(static_cast<uint64_t>(i)));
  return numbers;
}

/// The variables as "name type = initializer".
inline std::vector<std::string> variable_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Variable& variable : graph.variables())
    lines.push_back(graph.value(variable.value).name + " " + to_text(graph.type(variable.value)) +
                    " = " + to_text(variable.initializer));
  return lines;
}

/// Expects that elements are equal within an absolute tolerance.
inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                        double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

}  // namespace tessera
