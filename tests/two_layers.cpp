#include "two_layers.h"

#include "base/text/text.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

/// y = x w1; z = y w2; loss = sum of z squared; both weights updated by SGD.
Graph two_layers() {
  const auto f32 = [](const Shape& shape) { return TensorType{DType::kF32, shape}; };
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({TwoLayers::kBatch, TwoLayers::kIn}));
  const ValueId w1 =
      builder.variable("w1", f32({TwoLayers::kIn, TwoLayers::kHidden}), Initializer::normal(0, 1));
  const ValueId w2 =
      builder.variable("w2", f32({TwoLayers::kHidden, TwoLayers::kOut}), Initializer::normal(0, 1));
  const ValueId y = builder.dot(x, w1, "bd,dh->bh", "y");
  const ValueId z = builder.dot(y, w2, "bh,ho->bo", "z");
  const ValueId loss = builder.reduce_sum(builder.unary("square", z, "squares"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(builder, loss, {.kind = OptimizerKind::kSgd});
  return graph;
}

Meshes two_meshes() {
  const auto mesh = [](std::vector<Rank> ranks) {
    return std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"tp"}, std::move(ranks));
  };
  return {{"first", mesh({0, 1})}, {"last", mesh({2, 3})}};
}

std::string placement_lines(const TwoLayers& layers) {
  std::string text;
  for (const std::string& line : split_text(layers.stages.at("propagate"), '\n'))
    for (const char* name :
         {"x ", "w1 ", "w2 ", "y ", "z ", "loss ", "z.grad.a ", "y.grad.b ", "z.grad.b "})
      if (line.starts_with(name)) text += line + "\n";
  return text;
}

}  // namespace

TwoLayers::TwoLayers() : graph(two_layers()) {
  Mark first = shard_tensor("w1", "P(None, \"tp\")"), last = shard_tensor("w2", "P(\"tp\")");
  first.mesh = "first";
  last.mesh = "last";
  CompileOptions options;
  options.dump = [this](std::string_view stage, const std::string& text) {
    stages[std::string(stage)] = text;
  };
  compiled = compile(
      graph, Plan{.meshes = two_meshes(), .micro_batches = kMicroBatches, .marks = {first, last}},
      options);
}

std::vector<DocumentExample> examples_of(const TwoLayers& layers) {
  std::vector<DocumentExample> examples = {
      {"two-layers-placements",
       [&] { return placement_lines(layers); },
       {"y f32[8@mb, 4@tp]\n", "z f32[8@mb, 2]"}},
      {"two-layers-order", [&] { return layers.stages.at("order"); }}};
  for (Rank rank = 0; rank < 4; ++rank)
    examples.push_back({"two-layers-rank-" + std::to_string(rank),
                        [&layers, rank] { return rank_text(layers.compiled.tasks, rank); }});
  return examples;
}

}  // namespace tessera
