#include "ir/models/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "ir/models/internal/families.h"
#include "ir/models/model.h"
#include "ir/ops/interpreter.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> outputs_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& [name, value] : graph.outputs()) names.push_back(name);
  return names;
}

ModelConfig small_config(const std::string& kind) {
  return {.kind = kind, .context = 8, .width = 32, .embedding = 8};
}

TEST(FamilyNetwork, WritesTheGraphsOfBuildModel) {
  for (const std::string& kind : family_names()) {
    const Network network = network_of(small_config(kind));
    EXPECT_EQ(to_text(forward_graph(network, ForwardPurpose::kTraining, 4, 7)),
              to_text(build_model(small_config(kind), {.batch = 4, .seed = 7})))
        << kind;
    EXPECT_EQ(
        to_text(forward_graph(network, ForwardPurpose::kPrediction, 1, 7)),
        to_text(build_model(small_config(kind), {.training = false, .loss = false, .seed = 7})))
        << kind;
    if (!can_decode(small_config(kind))) continue;
    EXPECT_EQ(to_text(forward_graph(network, ForwardPurpose::kDecoding, 1, 7)),
              to_text(build_model(small_config(kind),
                                  {.training = false, .loss = false, .decode = true})))
        << kind;
  }
}

TEST(FamilyNetwork, EvaluationHasTheCountsOfItsMetricsAndNoLogits) {
  const auto evaluation = [](const std::string& kind) {
    return outputs_of(
        forward_graph(network_of(small_config(kind)), ForwardPurpose::kEvaluation, 2, 0));
  };
  EXPECT_THAT(evaluation("gpt"), ElementsAre("loss", "count", "correct"));
  EXPECT_THAT(evaluation("resnet"), ElementsAre("loss", "count", "correct"));
  EXPECT_THAT(evaluation("unet"),
              ElementsAre("loss", "count", "correct", "intersections", "unions"));
}

TEST(FamilyNetwork, CountsTheElementsOfItsLabels) {
  const auto units = [](const std::string& kind) {
    const Network network = network_of(small_config(kind));
    const Graph graph = forward_graph(network, ForwardPurpose::kTraining, 3, 0);
    return std::pair(units_per_batch(network, graph), unit_of(network, graph));
  };
  EXPECT_EQ(units("gpt"), std::pair(int64_t{3 * 8}, std::string("token")));
  EXPECT_EQ(units("resnet"), std::pair(int64_t{3}, std::string("image")));
  EXPECT_EQ(units("unet"), std::pair(int64_t{3 * 16 * 16}, std::string("pixel")));
}

/// y = w x, with a loss when there is one.
void write_product(Forward& forward) {
  Builder& b = forward.builder();
  const ValueId w = b.variable("w", {DType::kF32, {3}}, Initializer::constant(1));
  const ValueId y = b.dot(forward.input("x", {DType::kF32, {3}}), w, "ni,i->n", "y");
  forward.output("y", y);
  if (forward.has_loss()) forward.output("loss", b.reduce_sum(y, {0}));
}

TEST(Forward, PutsTheRowsInFrontOfTheTypeOfASample) {
  const Graph graph = forward_graph({.forward = write_product}, ForwardPurpose::kPrediction, 5, 0);
  EXPECT_EQ(graph.type(*graph.find_value("x")), (TensorType{DType::kF32, {5, 3}}));
  EXPECT_EQ(units_per_batch({.forward = write_product}, graph), 5) << "rows, without targets";
  EXPECT_EQ(unit_of({.forward = write_product}, graph), "sample");
}

TEST(Forward, AnInputHasOneNameInEveryScopeAndOneType) {
  Graph graph;
  Builder builder(graph);
  const Network network;
  Forward forward(network, ForwardPurpose::kTraining, 2, builder);
  const ValueId x = forward.input("x", {DType::kF32, {3}});
  {
    const auto scope = builder.scope("layer");
    EXPECT_EQ(forward.input("x", {DType::kF32, {3}}), x);
  }
  EXPECT_EQ(graph.value(x).name, "x");
  EXPECT_THAT(message_of(ExitCode::kBadData, [&] { forward.input("x", {DType::kF32, {4}}); }),
              HasSubstr("the input 'x' of the network is f32[2,4] and f32[2,3]"));
}

TEST(Forward, LayersTakeRandomNumbersInTrainingOnly) {
  const Network network{.forward = [](Forward& forward) {
    LayerContext layers = forward.layers();
    const ValueId x = forward.input("x", {DType::kF32, {3}});
    const ValueId y = linear(layers, dropout(layers, x, 0.5, "drop"), 1, "y");
    forward.output("loss", forward.builder().reduce_sum(y, {0, 1}));
  }};
  const auto draws = [&](ForwardPurpose purpose) {
    const Graph graph = forward_graph(network, purpose, 2, 0);
    return graph.find_value("step").has_value();
  };
  EXPECT_TRUE(draws(ForwardPurpose::kTraining));
  EXPECT_FALSE(draws(ForwardPurpose::kEvaluation));
  EXPECT_FALSE(draws(ForwardPurpose::kPrediction));
}

TEST(Network, TrainingGraphsHaveItsParameterGroups) {
  const Network network{.forward = write_product, .groups = {{.pattern = "w", .rate = 0.25}}};
  const Graph graph = training_graph(network, {.kind = OptimizerKind::kSgd}, 2, 0);
  EXPECT_TRUE(graph.find_op("optimizer.group0.learning_rate").has_value());
  EXPECT_THAT(data_inputs(graph), ElementsAre("x"));
}

std::string refusal_of(const Network& network) {
  return message_of(ExitCode::kBadData,
                    [&] { forward_graph(network, ForwardPurpose::kEvaluation, 2, 0); });
}

TEST(Network, AMetricOfValuesThatAreNoSumAndCountIsRefused) {
  EXPECT_THAT(refusal_of({.forward = write_product, .metrics = {{"far", "y"}}}),
              HasSubstr("the metric 'far' of the network reads f32[2] and f32[]"));
}

TEST(Network, WithoutDataIsRefused) {
  EXPECT_THAT(refusal_of({.forward =
                              [](Forward& forward) {
                                Builder& b = forward.builder();
                                forward.layers();
                                forward.output("loss", b.constant({DType::kF32, {}}, 1));
                              }}),
              HasSubstr("the network has no input\n  why: a step trains it on rows of data"));
}

TEST(Network, TargetsThatAreNoInputAreRefused) {
  EXPECT_THAT(refusal_of({.forward = write_product, .targets = "z"}),
              HasSubstr("the network has no input 'z'"));
  EXPECT_THAT(refusal_of({.forward = write_product, .targets = "x", .ignored_target = -1}),
              HasSubstr("the targets 'x' of the network are f32[2,3]"));
}

TEST(Network, IsCheckedWithoutAGraph) {
  const auto refusal = [](const Network& network) {
    return message_of(ExitCode::kBadConfig, [&] { check(network); });
  };
  EXPECT_EQ(refusal({.name = "the net"}),
            "the net has no forward graph\n"
            "  why: Network::forward is empty\n"
            "  fix: set it to a function that writes the graph");
  EXPECT_THAT(refusal({.forward = write_product, .ignored_target = -1}),
              HasSubstr("ignores targets of a value but does not say which or how many"));
  EXPECT_EQ(refusal(network_of({})), "nothing was thrown");
}

// ---- adapters (ir/models/lora.h) ----

ModelConfig adapted(const std::string& kind) {
  ModelConfig config = small_config(kind);
  config.layers = 1;
  config.lora = {.rank = 4, .alpha = 8, .targets = {"*.attn.{q,v}.weight", "*.attn.out.weight"}};
  return config;
}

TEST(Adapters, AddTheirProductAfterEachTarget) {
  const Graph graph = forward_graph(network_of(adapted("gpt")), ForwardPurpose::kPrediction, 2, 7);
  const auto type = [&](const std::string& name) {
    return to_text(graph.type(*graph.find_value("blocks.0.attn." + name)));
  };
  // 32 features, of which 4 heads have 8 each.
  EXPECT_EQ(type("q.weight"), "f32[32,4,8]");
  EXPECT_EQ(type("q.weight.lora_a"), "f32[32,4]");
  EXPECT_EQ(type("q.weight.lora_b"), "f32[4,4,8]");
  EXPECT_EQ(type("out.weight"), "f32[4,8,32]");
  EXPECT_EQ(type("out.weight.lora_a"), "f32[4,8,4]");
  EXPECT_EQ(type("out.weight.lora_b"), "f32[4,32]");
  EXPECT_FALSE(graph.find_value("blocks.0.attn.k.weight.lora_a"));
}

TEST(Adapters, ComputeAtFirstWhatTheModelWithoutThemComputes) {
  const auto logits = [](const ModelConfig& config) {
    const Graph graph = forward_graph(network_of(config), ForwardPurpose::kPrediction, 1, 7);
    ReferenceValues state = initial_variables(graph, 3);
    ReferenceTensor tokens{graph.type(*graph.find_value("tokens")), {}};
    for (int i = 0; i < 8; ++i) tokens.values.push_back(i);
    state["tokens"] = tokens;
    return interpret(graph, state).at(graph.value(graph.output("logits")).name).values;
  };
  ModelConfig without = adapted("gpt");
  without.lora.rank = 0;
  EXPECT_EQ(logits(adapted("gpt")), logits(without));
}

TEST(Adapters, AddTheScaledProductOfBothMatrices) {
  Network network{.forward =
                      [](Forward& forward) {
                        Builder& b = forward.builder();
                        const ValueId x = forward.input("x", {DType::kF32, {2}});
                        const ValueId w =
                            b.variable("w", {DType::kF32, {2, 3}}, Initializer::constant(1));
                        forward.output("y", b.dot(x, w, "ri,io->ro", "y"));
                      },
                  .lora = {.rank = 1, .alpha = 3, .targets = {"w"}}};
  const Graph graph = forward_graph(network, ForwardPurpose::kPrediction, 1, 0);
  ReferenceValues state = initial_variables(graph, 0);
  state["x"] = {graph.type(*graph.find_value("x")), {2, 5}};
  state["w.lora_a"].values = {1, 10};
  state["w.lora_b"].values = {1, 2, -1};
  // x w = 7, and x a = 2 + 50 = 52, so y = 7 + 3 * 52 * (1, 2, -1).
  EXPECT_THAT(interpret(graph, state).at(graph.value(graph.output("y")).name).values,
              ElementsAre(163, 319, -149));
}

TEST(Adapters, AreAllThatIsTrained) {
  const Graph graph = training_graph(network_of(adapted("llama")), {}, 2, 7);
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    EXPECT_EQ(variable.next.has_value(), name.find(".lora_") != std::string::npos) << name;
  }
}

TEST(Adapters, ATargetThatMatchesNoLinearLayerIsRefused) {
  ModelConfig config = adapted("gpt");
  config.lora.targets = {"tokens.weight"};
  EXPECT_EQ(message_of([&] { forward_graph(network_of(config), ForwardPurpose::kTraining, 2, 7); }),
            "78 the target 'tokens.weight' of model.lora_targets matches no weight\n"
            "  why: adapters are added to weights of linear layers, such as "
            "'blocks.0.attn.q.weight'\n"
            "  fix: name weights that it has, or remove the target");
}

}  // namespace
}  // namespace tessera
