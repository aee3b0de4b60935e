#include "ir/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "ir/autodiff/optimizer.h"
#include "ir/autodiff/testing/gradient_check.h"
#include "ir/models/testing/bench.h"

namespace tessera {
namespace {

using testing::ElementsAre;

/// Four tokens of five, width 4, two heads.
ModelConfig tiny(const std::string& kind) {
  return {.kind = kind,
          .vocabulary = 5,
          .context = 4,
          .layers = 1,
          .width = 4,
          .heads = 2,
          .embedding = 2,
          .dropout = 0.25};
}
ModelConfig tiny_gpt() {
  return tiny("gpt");
}
ModelConfig tiny_tied() {
  ModelConfig config = tiny("gpt");
  config.tied = true;
  return config;
}
ModelConfig tiny_mlp() {
  ModelConfig config = tiny("mlp");
  config.layers = 2;
  config.width = 6;
  return config;
}
ModelConfig tiny_llama() {
  ModelConfig config = tiny("llama");
  config.kv_heads = 1;
  config.ffn = 6;
  return config;
}
ModelConfig tiny_qwen() {
  ModelConfig config = tiny_llama();
  config.tied = config.qkv_bias = config.head_norms = true;
  config.head = 6;
  return config;
}
ModelConfig tiny_two_tower() {
  return tiny("two_tower");
}
ModelConfig tiny_encoder_decoder() {
  return tiny("encoder_decoder");
}
/// A state that can hold the two rows that a test memorizes.
ModelConfig tiny_recurrent(const std::string& kind) {
  ModelConfig config = tiny(kind);
  config.width = 8;
  config.embedding = 4;
  return config;
}
std::vector<ModelConfig> one_of_each() {
  return {tiny_gpt(),
          tiny_tied(),
          tiny_mlp(),
          tiny_llama(),
          tiny_qwen(),
          tiny_two_tower(),
          tiny_encoder_decoder(),
          tiny("bert"),
          tiny_recurrent("lstm"),
          tiny_recurrent("gru")};
}
std::string name_of(const ModelConfig& config) {
  return config.tied ? config.kind + "_tied" : config.kind;
}

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) names.push_back(graph.value(variable.value).name);
  return names;
}

std::vector<std::string> input_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (ValueId input : graph.inputs())
    lines.push_back(graph.value(input).name + " " + to_text(graph.type(input)));
  return lines;
}

std::vector<std::string> output_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : graph.outputs())
    lines.push_back(name + " " + to_text(graph.type(value)));
  return lines;
}

/// Lines under a prefix.
void append(std::vector<std::string>& lines, const std::string& prefix,
            const std::vector<std::string>& more) {
  for (const std::string& line : more) lines.push_back(prefix + line);
}
std::vector<std::string> norm_lines(const std::string& name) {
  return {name + ".weight f32[8] = constant(1.0)", name + ".bias f32[8] = constant(0.0)"};
}
/// Attention with four heads of width 2; `out` is the deviation of the last weight.
std::vector<std::string> attention_lines(const std::string& name, const std::string& out) {
  std::vector<std::string> lines;
  for (const std::string part : {"q", "k", "v"})
    append(lines, name + "." + part,
           {".weight f32[8,4,2] = normal(0.0, 0.02)", ".bias f32[4,2] = constant(0.0)"});
  append(lines, name + ".out",
         {".weight f32[4,2,8] = normal(0.0, " + out + ")", ".bias f32[8] = constant(0.0)"});
  return lines;
}
std::vector<std::string> ffn_lines(const std::string& out) {
  return {"ffn.up.weight f32[8,32] = normal(0.0, 0.02)", "ffn.up.bias f32[32] = constant(0.0)",
          "ffn.down.weight f32[32,8] = normal(0.0, " + out + ")",
          "ffn.down.bias f32[8] = constant(0.0)"};
}
/// A block of width 8 and four heads.
std::vector<std::string> block_lines(const std::string& out) {
  std::vector<std::string> lines = norm_lines("norm1");
  append(lines, "", attention_lines("attn", out));
  append(lines, "", norm_lines("norm2"));
  append(lines, "", ffn_lines(out));
  return lines;
}

/// Eleven tokens, a context of six, two layers of width 8 with four heads.
ModelConfig small(const std::string& kind) {
  return {.kind = kind,
          .vocabulary = 11,
          .context = 6,
          .layers = 2,
          .width = 8,
          .heads = 4,
          .embedding = 3};
}

// The deviation of the weight that ends a residual branch is 0.02 / sqrt(2 * 2 layers) = 0.01.
std::vector<std::string> gpt_lines_without_head() {
  std::vector<std::string> lines = {"tokens.weight f32[11,8] = normal(0.0, 0.02)",
                                    "positions.weight f32[6,8] = normal(0.0, 0.02)"};
  append(lines, "blocks.0.", block_lines("0.01"));
  append(lines, "blocks.1.", block_lines("0.01"));
  append(lines, "", norm_lines("norm"));
  return lines;
}

TEST(Gpt, ListsTheseParameters) {
  std::vector<std::string> expected = gpt_lines_without_head();
  expected.emplace_back("head.weight f32[8,11] = normal(0.0, 0.02)");
  EXPECT_EQ(variable_lines(build_model(small("gpt"), {.batch = 2})), expected);
}

TEST(TiedGpt, HasNoWeightOfItsOwnInTheHead) {
  ModelConfig config = small("gpt");
  config.tied = true;
  EXPECT_EQ(variable_lines(build_model(config, {.batch = 2})), gpt_lines_without_head());
}

TEST(Llama, ListsTheseParameters) {
  ModelConfig config = small("llama");
  config.kv_heads = 2;
  std::vector<std::string> expected = {"tokens.weight f32[11,8] = normal(0.0, 0.02)"};
  for (const std::string block : {"blocks.0.", "blocks.1."})
    append(expected, block,
           {"norm1.weight f32[8] = constant(1.0)", "attn.q.weight f32[8,4,2] = normal(0.0, 0.02)",
            "attn.k.weight f32[8,2,2] = normal(0.0, 0.02)",
            "attn.v.weight f32[8,2,2] = normal(0.0, 0.02)",
            "attn.out.weight f32[4,2,8] = normal(0.0, 0.01)", "norm2.weight f32[8] = constant(1.0)",
            // 8/3 of 8 is 21.3: the next multiple of 8 is 24.
            "ffn.gate.weight f32[8,24] = normal(0.0, 0.02)",
            "ffn.up.weight f32[8,24] = normal(0.0, 0.02)",
            "ffn.down.weight f32[24,8] = normal(0.0, 0.01)"});
  append(expected, "",
         {"norm.weight f32[8] = constant(1.0)", "head.weight f32[8,11] = normal(0.0, 0.02)"});
  EXPECT_EQ(variable_lines(build_model(config, {.batch = 2})), expected);
}

TEST(TwoTower, ListsTheseParameters) {
  std::vector<std::string> expected;
  for (const std::string side : {"left.", "right."}) {
    append(expected, side,
           {"tokens.weight f32[11,8] = normal(0.0, 0.02)",
            "positions.weight f32[3,8] = normal(0.0, 0.02)"});
    append(expected, side + "blocks.0.", block_lines("0.01"));
    append(expected, side + "blocks.1.", block_lines("0.01"));
    append(expected, side, norm_lines("norm"));
  }
  append(expected, "",
         {"joined.weight f32[16,8] = normal(0.0, 0.02)", "joined.bias f32[8] = constant(0.0)",
          "head.weight f32[8,11] = normal(0.0, 0.02)", "head.bias f32[11] = constant(0.0)"});
  EXPECT_EQ(variable_lines(build_model(small("two_tower"), {.batch = 2})), expected);
}

TEST(EncoderDecoder, ListsTheseParameters) {
  ModelConfig config = small("encoder_decoder");
  config.layers = 3;  // 0.02 / sqrt(3 * 3) is no short decimal, nor is 0.02 / sqrt(2 * 3)
  const std::string encoder = to_text(Attribute(0.02 / std::sqrt(6.0)));
  const std::string decoder = to_text(Attribute(0.02 / std::sqrt(9.0)));
  std::vector<std::string> expected = {"tokens.weight f32[11,8] = normal(0.0, 0.02)",
                                       "encoder.positions.weight f32[3,8] = normal(0.0, 0.02)"};
  for (const std::string number : {"0.", "1.", "2."})
    append(expected, "encoder.blocks." + number, block_lines(encoder));
  append(expected, "encoder.", norm_lines("norm"));
  expected.emplace_back("decoder.positions.weight f32[3,8] = normal(0.0, 0.02)");
  for (const std::string number : {"0.", "1.", "2."}) {
    const std::string block = "decoder.blocks." + number;
    append(expected, block, norm_lines("norm1"));
    append(expected, block, attention_lines("self", decoder));
    append(expected, block, norm_lines("norm2"));
    append(expected, block, attention_lines("cross", decoder));
    append(expected, block, norm_lines("norm3"));
    append(expected, block, ffn_lines(decoder));
  }
  append(expected, "", norm_lines("norm"));
  expected.emplace_back("head.weight f32[8,11] = normal(0.0, 0.02)");
  EXPECT_EQ(variable_lines(build_model(config, {.batch = 2})), expected);
}

TEST(Mlp, ListsTheseParameters) {
  const ModelConfig config{
      .kind = "mlp", .vocabulary = 11, .context = 6, .layers = 2, .width = 8, .embedding = 3};
  EXPECT_THAT(variable_lines(build_model(config, {.batch = 2})),
              ElementsAre("tokens.weight f32[11,3] = normal(0.0, 0.02)",  //
                          "hidden.0.weight f32[18,8] = normal(0.0, 0.02)",
                          "hidden.0.bias f32[8] = constant(0.0)",  // 6 * 3 = 18
                          "hidden.1.weight f32[8,8] = normal(0.0, 0.02)",
                          "hidden.1.bias f32[8] = constant(0.0)",  //
                          "head.weight f32[8,11] = normal(0.0, 0.02)",
                          "head.bias f32[11] = constant(0.0)"));
}

TEST(Lstm, ListsTheseParameters) {
  const ModelConfig config{
      .kind = "lstm", .vocabulary = 11, .context = 6, .layers = 2, .width = 4, .embedding = 3};
  // 1 / sqrt(4) = 0.5, and the four gates i, f, g, o.
  EXPECT_THAT(variable_lines(build_model(config, {.batch = 2})),
              ElementsAre("tokens.weight f32[11,3] = normal(0.0, 0.02)",
                          "rnn.0.weight_ih f32[3,4,4] = uniform(-0.5, 0.5)",
                          "rnn.0.weight_hh f32[4,4,4] = uniform(-0.5, 0.5)",
                          "rnn.0.bias_ih f32[4,4] = uniform(-0.5, 0.5)",
                          "rnn.0.bias_hh f32[4,4] = uniform(-0.5, 0.5)",
                          "rnn.1.weight_ih f32[4,4,4] = uniform(-0.5, 0.5)",
                          "rnn.1.weight_hh f32[4,4,4] = uniform(-0.5, 0.5)",
                          "rnn.1.bias_ih f32[4,4] = uniform(-0.5, 0.5)",
                          "rnn.1.bias_hh f32[4,4] = uniform(-0.5, 0.5)",
                          "head.weight f32[4,11] = normal(0.0, 0.02)",
                          "head.bias f32[11] = constant(0.0)"));
}

int64_t parameter_count(const ModelConfig& config) {
  const Graph graph = build_model(config, {.batch = 1});
  int64_t count = 0;
  for (const Variable& variable : graph.variables())
    count += element_count(graph.type(variable.value).shape);
  return count;
}

TEST(Model, HasAsManyParametersAsItsFormulaSays) {
  const int64_t v = 11, c = 6, l = 2, e = 8;
  const int64_t norm = 2 * e, attention = 4 * e * e + 4 * e, ffn = 8 * e * e + 5 * e;
  const int64_t block = attention + ffn + 2 * norm;
  EXPECT_EQ(parameter_count(small("gpt")), v * e + c * e + l * block + norm + e * v);
  ModelConfig tied = small("gpt");
  tied.tied = true;
  EXPECT_EQ(parameter_count(tied), v * e + c * e + l * block + norm);
  const int64_t embedding = 3;
  EXPECT_EQ(parameter_count(small("mlp")),
            v * embedding + (c * embedding * e + e) + (e * e + e) + (e * v + v));
  EXPECT_EQ(parameter_count(small("two_tower")),
            2 * (v * e + c / 2 * e + l * block + norm) + (2 * e * e + e) + (e * v + v));
  EXPECT_EQ(parameter_count(small("encoder_decoder")),
            v * e + (c / 2 * e + l * block + norm) + (c / 2 * e + l * (block + attention + norm)) +
                norm + e * v);
  ModelConfig llama = small("llama");
  llama.kv_heads = 1;
  llama.ffn = 20;
  const int64_t head = e / 4;
  EXPECT_EQ(parameter_count(llama),
            v * e + l * (2 * e * e + 2 * e * head + 3 * e * 20 + 2 * e) + e + e * v);
  ModelConfig qwen = llama;
  qwen.tied = qwen.qkv_bias = qwen.head_norms = true;
  qwen.head = 6;
  const int64_t heads = 4 * 6;
  EXPECT_EQ(
      parameter_count(qwen),
      v * e + l * (2 * e * heads + 2 * e * 6 + heads + 2 * 6 + 2 * 6 + 3 * e * 20 + 2 * e) + e);
}

TEST(Model, HasTheInputsThatItReadsAndNoOthers) {
  ModelConfig config = tiny_gpt();
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2})),
              ElementsAre("tokens i32[2,4]", "labels i32[2,4]", "step i32[]"));
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2, .training = false})),
              ElementsAre("tokens i32[2,4]", "labels i32[2,4]"));
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2, .training = false, .loss = false})),
              ElementsAre("tokens i32[2,4]"));
  config.dropout = 0;
  EXPECT_THAT(input_lines(build_model(config, {.batch = 2})),
              ElementsAre("tokens i32[2,4]", "labels i32[2,4]"));
}

TEST(Model, HasTheseOutputs) {
  const auto outputs = [](const ModelConfig& config, bool loss) {
    return output_lines(build_model(config, {.batch = 2, .loss = loss}));
  };
  for (const ModelConfig& config : {tiny_gpt(), tiny_tied(), tiny_llama()})
    EXPECT_THAT(outputs(config, true),
                ElementsAre("logits f32[2,4,5]", "loss f32[]", "count f32[]"))
        << config.kind;
  for (const ModelConfig& config : {tiny_mlp(), tiny_two_tower()})
    EXPECT_THAT(outputs(config, true), ElementsAre("logits f32[2,5]", "loss f32[]", "count f32[]"))
        << config.kind;
  EXPECT_THAT(outputs(tiny_encoder_decoder(), true),
              ElementsAre("logits f32[2,2,5]", "loss f32[]", "count f32[]"));
  EXPECT_THAT(outputs(tiny_gpt(), false), ElementsAre("logits f32[2,4,5]"));
}

TEST(Model, IsTheSameGraphEachTimeAndItsTextReadsBack) {
  for (const ModelConfig& config : one_of_each()) {
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
    for (int64_t i = 0; i < element_count(value.type.shape); ++i)
      tensor.values.push_back(0.5 * stream.normal(static_cast<uint64_t>(i)));
    state[value.name] = std::move(tensor);
  }
  state["tokens"] = {{DType::kI32, {2, 4}}, {0, 3, 1, 4, 4, 2, 0, 1}};
  state["labels"] = {{DType::kI32, {2, 4}}, {3, 1, 2, 2, 4, 0, -1, 0}};
  state["step"] = {{DType::kI32, {}}, {2}};
  return state;
}

class WholeModel : public testing::TestWithParam<ModelConfig> {};

TEST_P(WholeModel, GradientsAgreeWithFiniteDifferences) {
  const Graph graph = build_model(GetParam(), {.batch = 2});
  double largest = 0;
  for (const GradientSample& sample :
       sample_gradients(graph, random_state(graph), parameter_names(graph))) {
    EXPECT_NEAR(sample.analytic, sample.numeric, sample.tolerance) << sample.where;
    EXPECT_LT(sample.tolerance, 1e-4) << sample.where << ": too near a kink for differences";
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

INSTANTIATE_TEST_SUITE_P(Model, WholeModel, testing::ValuesIn(one_of_each()),
                         [](const auto& config) { return name_of(config.param); });

/// The tokens of row 0 on which the `row`-th logits of row 0 depend; they never depend on those of
/// row 1.
std::vector<bool> tokens_seen(const ModelConfig& config, int64_t row) {
  const Graph graph = build_model(config, {.batch = 2, .training = false, .loss = false});
  const std::string logits = graph.value(graph.output("logits")).name;
  const int64_t sample = element_count(graph.type(graph.output("logits")).shape) / 2;
  const ReferenceValues state = random_state(graph);
  const std::vector<double> before = interpret(graph, state).at(logits).values;
  std::vector<bool> seen;
  for (size_t place = 0; place < static_cast<size_t>(config.context); ++place) {
    ReferenceValues other = state;
    other["tokens"].values[place] = 2;  // row 0 has no 2
    const std::vector<double> after = interpret(graph, other).at(logits).values;
    const auto first = static_cast<std::ptrdiff_t>(row * config.vocabulary),
               last = first + config.vocabulary;
    seen.push_back(
        !std::equal(before.begin() + first, before.begin() + last, after.begin() + first));
    EXPECT_TRUE(std::equal(before.begin() + sample, before.end(), after.begin() + sample))
        << "another sample changes";
  }
  return seen;
}

TEST(Model, ATokenOfACausalModelDoesNotSeeThoseAfterIt) {
  for (const ModelConfig& config : {tiny_gpt(), tiny_tied(), tiny_llama()})
    for (int64_t row = 0; row < config.context; ++row)
      for (int64_t place = 0; place < config.context; ++place)
        EXPECT_EQ(tokens_seen(config, row)[place], place <= row)
            << name_of(config) << " " << row << " " << place;
}

TEST(EncoderDecoder, SeesTheFirstHalfAndOfTheSecondNoneAfterIt) {
  EXPECT_THAT(tokens_seen(tiny_encoder_decoder(), 0), ElementsAre(true, true, true, false));
  EXPECT_THAT(tokens_seen(tiny_encoder_decoder(), 1), ElementsAre(true, true, true, true));
}

TEST(TwoTower, SeesTheWholeContext) {
  EXPECT_THAT(tokens_seen(tiny_two_tower(), 0), ElementsAre(true, true, true, true));
}

TEST(TwoTower, NeitherTowerSeesTheOther) {
  const Graph graph = build_model(tiny_two_tower(), {.batch = 2, .training = false, .loss = false});
  ReferenceValues state = random_state(graph);
  const ReferenceValues before = interpret(graph, state);
  state["tokens"].values = {2, 2, 1, 4, 3, 3, 0, 1};  // the first halves
  const ReferenceValues after = interpret(graph, state);
  EXPECT_NE(after.at("left.summary").values, before.at("left.summary").values);
  EXPECT_EQ(after.at("right.summary").values, before.at("right.summary").values);
}

std::vector<ModelConfig> those_of_the_next_token() {
  std::vector<ModelConfig> configs = one_of_each();
  std::erase_if(configs, [](const ModelConfig& config) {
    return objective_of(config) != Objective::kNextToken;
  });
  return configs;
}

TEST(NextToken, IsSeenFromAllKnownTokensAndNoneAfterThem) {
  for (const ModelConfig& config : those_of_the_next_token())
    for (int64_t used = 1; used <= config.context; ++used) {
      const NextToken next = next_token(config, used);
      const std::vector<bool> seen = tokens_seen(config, next.row);
      for (int64_t place = next.first; place < config.context; ++place)
        EXPECT_EQ(seen[place], place < next.first + used)
            << name_of(config) << " " << used << " " << place;
    }
}

TEST(NextToken, OfNothingKnownIsStillARowOfTheLogits) {
  for (const ModelConfig& config : those_of_the_next_token())
    EXPECT_EQ(next_token(config, 0).row, 0) << name_of(config);
}

TEST(TiedGpt, IsTheGptWhoseHeadIsTheTransposeOfItsEmbedding) {
  const BuildOptions options{.batch = 2, .training = false};
  const Graph free = build_model(tiny_gpt(), options), tied = build_model(tiny_tied(), options);
  ReferenceValues state = random_state(free);
  const ReferenceTensor& table = state.at("tokens.weight");
  for (size_t token = 0; token < 5; ++token)
    for (size_t channel = 0; channel < 4; ++channel)
      state["head.weight"].values[channel * 5 + token] = table.values[token * 4 + channel];
  const std::string loss = free.value(free.output("loss")).name;
  const double expected = interpret(free, state).at(loss).values[0];
  state.erase("head.weight");
  EXPECT_EQ(interpret(tied, state).at(loss).values[0],
            expected);  // the same doubles in the same order
}

/// The labels on which the loss depends, by their index in two rows of four.
std::vector<int> labels_counted(const ModelConfig& config) {
  const Graph graph = build_model(config, {.batch = 2, .training = false});
  const std::string loss = graph.value(graph.output("loss")).name;
  ReferenceValues state = random_state(graph);
  state["labels"].values = {3, 1, 2, 2, 4, 0, 3, 0};
  const double before = interpret(graph, state).at(loss).values[0];
  std::vector<int> counted;
  for (int i = 0; i < 8; ++i) {
    ReferenceValues other = state;
    double& label = other["labels"].values[i];
    label = label == 4 ? 1 : 4;
    if (interpret(graph, other).at(loss).values[0] != before) counted.push_back(i);
  }
  EXPECT_THAT(interpret(graph, state).at(graph.value(graph.output("count")).name).values,
              ElementsAre(static_cast<double>(counted.size())));
  return counted;
}

TEST(Model, PredictsTheseLabels) {
  for (const ModelConfig& config : {tiny_gpt(), tiny_tied(), tiny_llama()})
    EXPECT_THAT(labels_counted(config), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)) << name_of(config);
  for (const ModelConfig& config : {tiny_mlp(), tiny_two_tower()})
    EXPECT_THAT(labels_counted(config), ElementsAre(3, 7)) << config.kind;  // the last of each row
  EXPECT_THAT(labels_counted(tiny_encoder_decoder()), ElementsAre(2, 3, 6, 7));
}

}  // namespace
}  // namespace tessera
