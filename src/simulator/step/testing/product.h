// A graph of one op, for tests.
#pragma once

#include "ir/ops/builder.h"

namespace tessera {

/// y[1000, 400] = x[1000, 500] w[500, 400].
inline Graph one_product() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {1000, 500}});
  const ValueId w = builder.input("w", {DType::kF32, {500, 400}});
  graph.add_output("y", builder.dot(x, w, "mk,kn->mn", "y"));
  return graph;
}

}  // namespace tessera
