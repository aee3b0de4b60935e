// Lesson 1: a program is a graph of operators on whole tensors.
//
// We write y = x w with the Builder, print the graph, and run it with the reference interpreter:
// plain loops over doubles, with which everything later is compared. Nothing here knows devices.
#include <cstdio>

#include "base/error.h"
#include "ir/ops/builder.h"
#include "ir/ops/interpreter.h"

using namespace tessera;

int main() try {
  Graph graph;
  Builder builder(graph);

  // Every step receives new inputs. A variable is state that persists between steps.
  const ValueId x = builder.input("x", parse_tensor_type("f32[2,3]"));
  const ValueId w = builder.variable("w", parse_tensor_type("f32[3,2]"), Initializer::constant(0));

  // Every matrix product is a dot_general, written as an einsum: m and n stay, k is summed over.
  const ValueId y = builder.dot(x, w, "mk,kn->mn", "y");
  graph.add_output("y", y);
  std::printf("%s\n", to_text(graph).c_str());

  // The interpreter takes the inputs and variables by name and returns every value by name.
  ReferenceValues state;
  state["x"] = to_reference(Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  state["w"] = to_reference(Tensor::of<float>({3, 2}, {1, 0, 0, 1, 1, 1}));
  const ReferenceTensor result = interpret(graph, state).at("y");

  // y[0] = 1*1 + 2*0 + 3*1, 1*0 + 2*1 + 3*1;  y[1] = 4 + 6, 5 + 6
  std::printf("y = [[%g, %g], [%g, %g]]\n\n", result.values[0], result.values[1], result.values[2],
              result.values[3]);

  // Operands that do not fit are refused at once, with the numbers and a way out.
  try {
    builder.dot(w, w, "mk,kn->mn", "wrong");
  } catch (const UserError& error) {
    std::printf("%s\n", error.what());
  }
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
