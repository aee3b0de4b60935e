#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/gradient_check.h"
#include "autodiff/optimizer.h"
#include "base/error.h"
#include "base/random.h"

namespace tessera {
namespace {

using testing::ElementsAre;

ModelConfig tiny_gpt() {
  return {.kind = "gpt", .vocabulary = 5, .context = 3, .layers = 1, .width = 4, .heads = 2, .embedding = 0, .dropout = 0.25};
}
ModelConfig tiny_mlp() {
  return {.kind = "mlp", .vocabulary = 5, .context = 3, .layers = 2, .width = 6, .heads = 1, .embedding = 2, .dropout = 0.25};
}

std::vector<std::string> variable_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Variable& variable : graph.variables())
    lines.push_back(graph.value(variable.value).name + " " + to_text(graph.type(variable.value)) + " = " + to_text(variable.initializer));
  return lines;
}

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) names.push_back(graph.value(variable.value).name);
  return names;
}

std::vector<std::string> input_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (ValueId input : graph.inputs()) lines.push_back(graph.value(input).name + " " + to_text(graph.type(input)));
  return lines;
}

std::vector<std::string> output_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : graph.outputs()) lines.push_back(name + " " + to_text(graph.type(value)));
  return lines;
}

TEST(Gpt, ListsTheseParameters) {
  const ModelConfig config{.kind = "gpt", .vocabulary = 11, .context = 6, .layers = 2, .width = 8, .heads = 4};
  // 0.02 / sqrt(2 * 2 layers) = 0.01 ends a residual branch.
  std::vector<std::string> expected = {"tokens.weight f32[11,8] = normal(0.0, 0.02)", "positions.weight f32[6,8] = normal(0.0, 0.02)"};
  for (const std::string block : {"blocks.0.", "blocks.1."})
    for (const char* line :
         {"norm1.weight f32[8] = constant(1.0)", "norm1.bias f32[8] = constant(0.0)", "attn.q.weight f32[8,4,2] = normal(0.0, 0.02)",
          "attn.q.bias f32[4,2] = constant(0.0)", "attn.k.weight f32[8,4,2] = normal(0.0, 0.02)", "attn.k.bias f32[4,2] = constant(0.0)",
          "attn.v.weight f32[8,4,2] = normal(0.0, 0.02)", "attn.v.bias f32[4,2] = constant(0.0)",
          "attn.out.weight f32[4,2,8] = normal(0.0, 0.01)", "attn.out.bias f32[8] = constant(0.0)", "norm2.weight f32[8] = constant(1.0)",
          "norm2.bias f32[8] = constant(0.0)", "ffn.up.weight f32[8,32] = normal(0.0, 0.02)", "ffn.up.bias f32[32] = constant(0.0)",
          "ffn.down.weight f32[32,8] = normal(0.0, 0.01)", "ffn.down.bias f32[8] = constant(0.0)"})
      expected.push_back(block + line);
  for (const char* line :
       {"norm.weight f32[8] = constant(1.0)", "norm.bias f32[8] = constant(0.0)", "head.weight f32[8,11] = normal(0.0, 0.02)"})
    expected.emplace_back(line);
  EXPECT_EQ(variable_lines(build_model(config, {.batch = 2})), expected);
}

TEST(Mlp, ListsTheseParameters) {
  const ModelConfig config{.kind = "mlp", .vocabulary = 11, .context = 6, .layers = 2, .width = 8, .embedding = 3};
  EXPECT_THAT(variable_lines(build_model(config, {.batch = 2})),
              ElementsAre("tokens.weight f32[11,3] = normal(0.0, 0.02)",                                            //
                          "hidden.0.weight f32[18,8] = normal(0.0, 0.02)", "hidden.0.bias f32[8] = constant(0.0)",  // 6 * 3 = 18
                          "hidden.1.weight f32[8,8] = normal(0.0, 0.02)", "hidden.1.bias f32[8] = constant(0.0)",   //
                          "head.weight f32[8,11] = normal(0.0, 0.02)", "head.bias f32[11] = constant(0.0)"));
}

TEST(Model, HasTheInputsThatItReadsAndNoOthers) {
  ModelConfig config = tiny_gpt();
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2})), ElementsAre("tokens i32[2,3]", "labels i32[2,3]", "step i32[]"));
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2, .training = false})), ElementsAre("tokens i32[2,3]", "labels i32[2,3]"));
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2, .training = false, .loss = false})), ElementsAre("tokens i32[2,3]"));
  config.dropout = 0;
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2})), ElementsAre("tokens i32[2,3]", "labels i32[2,3]"));
}

TEST(Model, HasTheseOutputs) {
  EXPECT_THAT(output_lines(build_model(tiny_gpt(), {.batch = 2})), ElementsAre("logits f32[2,3,5]", "loss f32[]", "count f32[]"));
  EXPECT_THAT(output_lines(build_model(tiny_mlp(), {.batch = 2})), ElementsAre("logits f32[2,5]", "loss f32[]", "count f32[]"));
  EXPECT_THAT(output_lines(build_model(tiny_gpt(), {.batch = 2, .loss = false})), ElementsAre("logits f32[2,3,5]"));
}

TEST(Model, IsTheSameGraphEachTimeAndItsTextReadsBack) {
  for (const ModelConfig& config : {tiny_gpt(), tiny_mlp()}) {
    const std::string text = to_text(build_model(config, {.batch = 2}));
    EXPECT_EQ(to_text(build_model(config, {.batch = 2})), text);
    EXPECT_EQ(to_text(parse_graph(text)), text);
  }
}

/// A batch of two and variables large enough that every gradient is well above rounding.
ReferenceValues random_state(const Graph& graph) {
  ReferenceValues state;
  for (const Variable& variable : graph.variables()) {
    const Value& value = graph.value(variable.value);
    const RandomStream stream(random_key(5, value.name), 0);
    ReferenceTensor tensor{value.type, {}};
    for (int64_t i = 0; i < element_count(value.type.shape); ++i) tensor.values.push_back(0.5 * stream.normal(static_cast<uint64_t>(i)));
    state[value.name] = std::move(tensor);
  }
  state["tokens"] = {{DType::kI32, {2, 3}}, {0, 3, 1, 4, 4, 2}};
  state["labels"] = {{DType::kI32, {2, 3}}, {3, 1, 2, 4, -1, 0}};
  state["step"] = {{DType::kI32, {}}, {2}};
  return state;
}

class WholeModel : public testing::TestWithParam<ModelConfig> {};

TEST_P(WholeModel, GradientsAgreeWithFiniteDifferences) {
  const Graph graph = build_model(GetParam(), {.batch = 2});
  double largest = 0;
  for (const GradientSample& sample : sample_gradients(graph, random_state(graph), parameter_names(graph))) {
    EXPECT_NEAR(sample.analytic, sample.numeric, sample.tolerance) << sample.where;
    EXPECT_LT(sample.tolerance, 1e-4) << sample.where << ": too near a kink to be judged";
    largest = std::max(largest, std::abs(sample.analytic));
  }
  EXPECT_GT(largest, 0.05);
}

TEST_P(WholeModel, LearnsABatchByHeart) {
  ModelConfig config = GetParam();
  config.dropout = 0;
  Graph graph = build_model(config, {.batch = 2});
  Builder builder(graph);
  add_training(builder, graph.output("loss"), {.kind = OptimizerKind::kAdamW, .clip_norm = 1});
  verify(graph);
  const std::string loss = graph.value(graph.output("loss")).name;
  ReferenceValues state = initial_variables(graph, 1);
  std::vector<double> losses;
  for (int step = 0; step < 60; ++step) {
    ReferenceValues inputs = random_state(Graph());
    inputs["step"].values[0] = step;
    inputs["learning_rate"] = {{DType::kF32, {}}, {0.03}};
    state.insert(inputs.begin(), inputs.end());
    const ReferenceValues values = interpret(graph, state);
    losses.push_back(values.at(loss).values[0]);
    state = next_variables(graph, values);
  }
  EXPECT_NEAR(losses.front(), std::log(5.0), 0.05);  // weights near zero: five equal classes
  EXPECT_LT(losses.back(), 0.2 * losses.front());
}

INSTANTIATE_TEST_SUITE_P(Model, WholeModel, testing::Values(tiny_gpt(), tiny_mlp()), [](const auto& config) { return config.param.kind; });

TEST(Gpt, ATokenDoesNotSeeThoseAfterIt) {
  const Graph graph = build_model(tiny_gpt(), {.batch = 2, .training = false, .loss = false});
  const std::string logits = graph.value(graph.output("logits")).name;
  ReferenceValues state = random_state(graph);
  const std::vector<double> before = interpret(graph, state).at(logits).values;
  state["tokens"].values[2] = 0;  // the last token of row 0
  const std::vector<double> after = interpret(graph, state).at(logits).values;
  for (size_t i = 0; i < before.size(); ++i) {
    const bool depends = i >= 10 && i < 15;  // row 0, place 2, five classes
    EXPECT_EQ(before[i] != after[i], depends) << i;
  }
}

TEST(Mlp, LooksAtTheLastLabelAlone) {
  const Graph graph = build_model(tiny_mlp(), {.batch = 2, .training = false});
  const std::string loss = graph.value(graph.output("loss")).name, count = graph.value(graph.output("count")).name;
  ReferenceValues state = random_state(graph);
  const ReferenceValues before = interpret(graph, state);
  EXPECT_THAT(before.at(count).values, ElementsAre(2));  // two rows
  state["labels"].values = {0, 0, 2, 0, 0, 0};           // the last of each row as it was: 2 and 0
  EXPECT_EQ(interpret(graph, state).at(loss).values, before.at(loss).values);
  state["labels"].values[5] = 1;
  EXPECT_NE(interpret(graph, state).at(loss).values, before.at(loss).values);
}

ModelConfig read(const std::string& text) {
  const Document document = parse_toml(text, "train.toml");
  ConfigTable file(&document, "", "train.toml");
  return read_model_config(file.table("model"));
}

std::string message_of(const std::string& text) {
  try {
    read(text);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "no error";
}

TEST(ReadModelConfig, ReadsTheKeysOfEachFamily) {
  const std::string common = "context = 8\nlayers = 3\nwidth = 30\ndropout = 0.5\n";
  for (const std::string kind : {"gpt", "mlp", "llama", "two_tower", "encoder_decoder"}) {
    const ModelConfig config = read("[model]\nkind = \"" + kind + "\"\n" + common + (kind == "mlp" ? "" : "heads = 5\n"));
    EXPECT_EQ(config.kind, kind);
    EXPECT_EQ(config.context, 8);
    EXPECT_EQ(config.layers, 3);
    EXPECT_EQ(config.width, 30);
    EXPECT_EQ(config.heads, kind == "mlp" ? ModelConfig().heads : 5);
    EXPECT_EQ(config.dropout, 0.5);
    EXPECT_EQ(config.vocabulary, ModelConfig().vocabulary);  // the data gives it
  }
  EXPECT_EQ(read("[model]\nkind = \"mlp\"\nembedding = 9\n").embedding, 9);
  EXPECT_TRUE(read("[model]\ntied = true\n").tied);
  const ModelConfig llama = read("[model]\nkind = \"llama\"\nkv_heads = 2\nffn = 50\nrope_base = 500.0\n");
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.ffn, 50);
  EXPECT_EQ(llama.rope_base, 500);
}

TEST(ReadModelConfig, WhatIsAbsentHasItsDefault) {
  const ModelConfig config = read("");
  EXPECT_EQ(config.kind, "gpt");
  EXPECT_EQ(config.width, 128);
  EXPECT_EQ(config.heads, 4);
}

TEST(ReadModelConfig, AnUnknownKeyIsRefusedWithTheNearest) {
  EXPECT_EQ(message_of("[model]\nlayer = 3\n"),
            "train.toml: unknown key 'model.layer'\n"
            "  why: legal keys here are context, dropout, heads, kind, layers, tied, width\n"
            "  fix: did you mean 'model.layers'?");
}

TEST(ReadModelConfig, AnUnknownKindIsRefused) {
  EXPECT_EQ(message_of("[model]\nkind = \"rnn\"\n"),
            "train.toml: model.kind = \"rnn\" is not possible\n"
            "  why: model.kind must be one of gpt, mlp, llama, two_tower, encoder_decoder\n"
            "  fix: set model.kind to such a value");
}

TEST(ReadModelConfig, AValueOutOfRangeIsRefused) {
  EXPECT_EQ(message_of("[model]\nlayers = 0\n"),
            "train.toml: model.layers = 0 is not possible\n"
            "  why: model.layers must be an integer from 1 to 1000\n"
            "  fix: set model.layers to such a value");
  EXPECT_EQ(message_of("[model]\ndropout = 1.0\n"),
            "train.toml: model.dropout = 1.0 is not possible\n"
            "  why: model.dropout must be a number from 0.0 to 0.99\n"
            "  fix: set model.dropout to such a value");
}

TEST(ReadModelConfig, HeadsThatDoNotDivideTheWidthAreRefusedWithThoseThatDo) {
  EXPECT_EQ(message_of("[model]\nwidth = 12\nheads = 5\n"),
            "train.toml: model.heads = 5 does not divide model.width = 12\n"
            "  why: every head takes the same number of channels, width / heads\n"
            "  fix: set model.heads to one of 1, 2, 3, 4, 6, 12");
}

TEST(ReadModelConfig, AKeyOfAnotherFamilyIsRefused) {
  EXPECT_EQ(message_of("[model]\nkind = \"mlp\"\nheads = 4\n"),
            "train.toml: unknown key 'model.heads'\n"
            "  why: legal keys here are context, dropout, embedding, kind, layers, width\n"
            "  fix: remove it or use one of these");
}

TEST(ReadModelConfig, KeyHeadsThatDoNotDivideTheHeadsAreRefusedWithThoseThatDo) {
  EXPECT_EQ(message_of("[model]\nkind = \"llama\"\nwidth = 24\nheads = 6\nkv_heads = 4\n"),
            "train.toml: model.kv_heads = 4 does not divide model.heads = 6\n"
            "  why: as many heads of queries share each head of keys and values, heads / kv_heads\n"
            "  fix: set model.kv_heads to one of 1, 2, 3, 6");
}

TEST(ReadModelConfig, RotaryHeadsOfAnOddNumberOfChannelsAreRefused) {
  EXPECT_EQ(message_of("[model]\nkind = \"llama\"\nwidth = 12\nheads = 4\n"),
            "train.toml: the heads of model.width = 12 and model.heads = 4 have 3 channels\n"
            "  why: rotary positions turn channels in pairs, so width / heads must be even\n"
            "  fix: set model.width to a multiple of 8");
}

TEST(ReadModelConfig, AnOddContextHasNoHalves) {
  for (const std::string kind : {"two_tower", "encoder_decoder"})
    EXPECT_EQ(message_of("[model]\nkind = \"" + kind + "\"\ncontext = 7\n"),
              "train.toml: model.context = 7 is odd\n"
              "  why: a model of kind " +
                  kind +
                  " takes the two halves of the context apart\n"
                  "  fix: set model.context to 8");
}

TEST(SettingsOf, ListsTheKeysOfTheFamilyWithTheirDefaultsFilledIn) {
  // 8/3 of 20 is 53.3: the next multiple of 8 is 56.
  EXPECT_EQ(to_json(settings_of({.kind = "llama", .vocabulary = 11, .context = 8, .layers = 3, .width = 20, .heads = 5, .dropout = 0.5})),
            R"({"kind":"llama","vocabulary":11,"context":8,"layers":3,"width":20,"dropout":0.5,"heads":5,"kv_heads":5,"ffn":56,)"
            R"("rope_base":10000.0})");
}

}  // namespace
}  // namespace tessera
