// The classes and layers of the models that come with the project (ir/graph/classes.h,
// ir/graph/repeated_layers.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/graph/classes.h"
#include "ir/graph/repeated_layers.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

using testing::ElementsAre;

const std::filesystem::path kConfigs = std::filesystem::path(TESSERA_SOURCE_DIR) / "configs";

Graph model(const std::string& name, const std::vector<std::string>& sets = {}) {
  RunConfig config = read_config(kConfigs / (name + ".toml"), sets);
  if (config.model.vocabulary == 0) config.model.vocabulary = 256;  // of the data: bytes
  return training_graph(config);
}

Graph gpt(int layers) {
  return model("gpt", {"model.layers=" + std::to_string(layers)});
}

// Each block has 16 parameters: 2 norms of 2, q, k, v, out, up and down of 2. The borders reach
// over kClassDepth ops, which is less than three layers.
TEST(ClassesOfModels, AreAsManyForAnyNumberOfLayers) {
  const Classes eight = classes_of(gpt(8)), nine = classes_of(gpt(9)), twelve = classes_of(gpt(12));
  EXPECT_EQ(eight.ops.size(), nine.ops.size());
  EXPECT_EQ(eight.ops.size(), twelve.ops.size());
  EXPECT_EQ(eight.values.size(), twelve.values.size());
}

TEST(ClassesOfModels, MatchOpsOfEveryRoleInTheMiddleLayers) {
  const Graph graph = gpt(10);
  const Classes classes = classes_of(graph);
  int of_role[3] = {};
  for (const Op& op : graph.ops()) {
    const std::string third = "blocks.3.", sixth = "blocks.6.";
    const size_t at = op.name.find(third);
    if (at == std::string::npos) continue;
    std::string other = op.name;
    other.replace(at, third.size(), sixth);
    EXPECT_EQ(classes.at(*graph.find_op(op.name)), classes.at(*graph.find_op(other))) << op.name;
    ++of_role[static_cast<int>(op.role)];
  }
  for (int count : of_role) EXPECT_GT(count, 50);
}

TEST(ClassesOfModels, TellTheProjectionsOfALayerApart) {
  const Graph graph = gpt(4);
  const Classes classes = classes_of(graph);
  const auto of = [&](std::string_view name) { return classes.at(*graph.find_value(name)); };
  const ValueClass q = of("blocks.2.attn.q.weight"), k = of("blocks.2.attn.k.weight"),
                   v = of("blocks.2.attn.v.weight");
  EXPECT_NE(q, k);
  EXPECT_NE(k, v);
  EXPECT_NE(q, v);
}

/// The scopes of the layers of each group. Every layer must have all forward ops of its scope.
std::vector<std::vector<std::string>> scopes_of(const Graph& graph) {
  std::vector<std::vector<std::string>> lists;
  for (const auto& group : find_repeated_layers(graph).groups) {
    lists.emplace_back();
    for (const Layer& layer : group) {
      lists.back().push_back(layer.scope);
      std::vector<std::string> in_layer, in_scope;
      for (OpId op : layer.ops) in_layer.push_back(graph.op(op).name);
      for (const Op& op : graph.ops())
        if (op.role == Role::kForward && op.name.starts_with(layer.scope + "."))
          in_scope.push_back(op.name);
      EXPECT_EQ(in_layer, in_scope);
    }
  }
  return lists;
}

TEST(LayersOfModels, OfGptAndLlamaAreTheBlocks) {
  EXPECT_THAT(scopes_of(gpt(3)), ElementsAre(ElementsAre("blocks.0", "blocks.1", "blocks.2")));
  EXPECT_THAT(scopes_of(model("llama")),
              ElementsAre(ElementsAre("blocks.0", "blocks.1", "blocks.2", "blocks.3")));
}

// The first block of the second and third stage halves the image and doubles the channels: it has a
// projection that the others lack.
TEST(LayersOfModels, OfResnetAreTheLikeBlocksOfEachStage) {
  EXPECT_THAT(
      scopes_of(model("resnet20")),
      ElementsAre(ElementsAre("layer1.0", "layer1.1", "layer1.2"),
                  ElementsAre("layer2.1", "layer2.2"), ElementsAre("layer3.1", "layer3.2")));
}

TEST(LayersOfModels, OfTwoStacksAreTwoGroups) {
  EXPECT_THAT(scopes_of(model("encoder_decoder")),
              ElementsAre(ElementsAre("encoder.blocks.0", "encoder.blocks.1"),
                          ElementsAre("decoder.blocks.0", "decoder.blocks.1")));
}

TEST(LayersOfModels, HaveTheirShareOfTheBackwardAndTheOptimizer) {
  const Graph graph = gpt(2);
  const RepeatedLayers layers = find_repeated_layers(graph);
  for (const char* name :
       {"blocks.1.attn.q.dot", "blocks.1.attn.q.dot.grad.b", "clip.blocks.1.attn.q.weight.square",
        "blocks.1.attn.q.weight.adamw.next"})
    EXPECT_EQ(layers.at(*graph.find_op(name)).layer, LayerIndex(1)) << name;
  EXPECT_EQ(layers.at(*graph.find_value("blocks.1.ffn.up.bias.exp_avg")).layer, LayerIndex(1));
  EXPECT_TRUE(layers.at(*graph.find_value("head.weight")).is_none());
}

}  // namespace
}  // namespace tessera
