// Lesson 2: two marks shard a whole network.
//
// A mesh gives the ranks named axes. We mark the batch on dp and the first weight on tp;
// propagation finds the placement of everything else from the sharding rules of the operators.
#include <cstdio>

#include "base/error.h"
#include "ir/ops/builder.h"
#include "sharding/propagation/propagate.h"

using namespace tessera;

namespace {

/// y = relu(x up) down: the feed-forward part of every transformer.
Graph two_layers() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", parse_tensor_type("f32[8,16]"));
  const ValueId up =
      builder.variable("up", parse_tensor_type("f32[16,64]"), Initializer::normal(0, 0.02));
  const ValueId down =
      builder.variable("down", parse_tensor_type("f32[64,16]"), Initializer::normal(0, 0.02));
  const ValueId hidden = builder.max_scalar(builder.dot(x, up, "be,eh->bh", "hidden"), 0, "relu");
  graph.add_output("y", builder.dot(hidden, down, "bh,he->be", "y"));
  return graph;
}

}  // namespace

int main() try {
  const Graph graph = two_layers();

  // Four ranks: [[0, 1], [2, 3]]. Rows of the grid share no data, columns share no weights.
  const auto mesh = std::make_shared<const Mesh>(Shape{2, 2}, std::vector<std::string>{"dp", "tp"});

  // P("dp"): dim 0 is sharded over dp. P(None, "tp"): dim 1 is sharded over tp, dim 0 is whole.
  const std::vector<Mark> marks = {shard_tensor("x", "P(\"dp\")"),
                                   shard_tensor("up", "P(None, \"tp\")")};
  const ShardedGraph sharded = propagate(graph, mesh, marks);

  // down follows up: its rows belong to the columns of up.
  std::printf("%s\n%s\n", to_text(*mesh).c_str(), print_placements(graph, sharded).c_str());

  // y is a sum over the rows of down, so each tp rank computes a partial value. The graph needs the
  // sum: an all-reduce follows.
  const Op& op = graph.op(*graph.find_op("y"));
  const OpView op_view = view(graph, op);
  const ShardingRule rule = find_operator(op.kind).rule(op_view);
  const DistAttr made = output_attr(op_view, rule, sharded.at(*graph.find_op("y")), 0);
  std::printf("rule of y     %s\nmade as       %s\nwanted as     %s\n\n", to_text(rule).c_str(),
              to_text(graph.type(op.outputs[0]), made).c_str(),
              to_text(graph.type(op.outputs[0]), sharded.at(op.outputs[0])).c_str());

  // Every placement has a reason: a mark, or the op that caused it.
  for (size_t i = 0; i < graph.values().size(); ++i)
    std::printf("%-7s %s\n", graph.values()[i].name.c_str(), sharded.value_reasons[i].c_str());

  // The part of one rank: rank 3 is at coordinate dp 1, tp 1.
  const Box box = sharded.at(*graph.find_value("up")).box({16, 64}, *mesh->coordinate_of(3));
  std::printf("\nrank 3 holds %s of up\n", to_text(box).c_str());
} catch (const UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.exit_code());
}
