// A model of layers that the tests of this module train.
#pragma once

#include <string>
#include <vector>

#include "ir/autodiff/gradient.h"
#include "ir/graph/graph.h"
#include "ir/ops/builder.h"

namespace tessera::testing_layers {

/// `count` layers of a square weight each, w0, w1, ..., trained by gradient descent on `rows` rows:
/// the product of layer i is "y.wi", its tanh "layer.i".
inline Graph square_layers(int count, int64_t rows, int64_t width) {
  Graph graph;
  Builder b(graph);
  ValueId y = b.input("x", {DType::kF32, {rows, width}});
  std::vector<ValueId> weights;
  for (int i = 0; i < count; ++i) {
    const std::string name = "w" + std::to_string(i);
    weights.push_back(b.variable(name, {DType::kF32, {width, width}}, Initializer::normal(0, 1)));
    const ValueId product = b.dot(y, weights.back(), "mk,kn->mn", "y." + name);
    y = b.unary("tanh", product, "layer." + std::to_string(i));
  }
  const ValueId loss = b.reduce_sum(y, {0, 1}, "loss");
  graph.add_output("loss", loss);
  const std::vector<ValueId> gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    b.derive(Role::kOptimizer, {graph.value(weights[i]).name, "optimizer"});
    graph.set_next(weights[i],
                   b.sub(weights[i], gradients[i], graph.value(weights[i]).name + ".next"));
  }
  return graph;
}

}  // namespace tessera::testing_layers
