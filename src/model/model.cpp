#include "model/model.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "model/layers.h"

namespace tessera {
namespace {

constexpr double kDeviation = 0.02;

/// Inputs of the model; labels and step only when they are used.
struct ModelInputs {
  ValueId tokens;
  ValueId labels;
  ValueId step;
};

ModelInputs add_inputs(Builder& builder, const ModelConfig& config, const BuildOptions& options) {
  const TensorType tokens{DType::kI32, {options.batch, config.context}};
  ModelInputs inputs;
  inputs.tokens = builder.input("tokens", tokens);
  if (options.loss) inputs.labels = builder.input("labels", tokens);
  if (options.training && config.dropout > 0) inputs.step = builder.input("step", {DType::kI32, {}});
  return inputs;
}

ValueId feed_forward(LayerContext& context, ValueId x, int64_t width, double out_deviation) {
  const auto scope = context.builder.scope("ffn");
  const ValueId hidden = gelu(context, linear(context, x, 4 * width, "up"));
  return linear(context, hidden, width, "down", out_deviation);
}

ValueId gpt_block(LayerContext& context, ValueId x, const ModelConfig& config) {
  // Each block adds two branches to the residual: their variances add up over the layers. Source: GPT-2, section 2.3.
  const double out_deviation = kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
  Builder& builder = context.builder;
  const ValueId mixed = self_attention(context, layer_norm(context, x, "norm1"), config.heads, true, out_deviation, "attn");
  x = builder.add(x, dropout(context, mixed, config.dropout, "dropout1"), "residual1");
  const ValueId fed = feed_forward(context, layer_norm(context, x, "norm2"), config.width, out_deviation);
  return builder.add(x, dropout(context, fed, config.dropout, "dropout2"), "residual2");
}

ValueId gpt_embedding(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  Builder& builder = context.builder;
  const ValueId rows = embedding(context, tokens, config.vocabulary, config.width, "tokens");
  const auto scope = builder.scope("positions");
  const ValueId positions = builder.variable("weight", {DType::kF32, {config.context, config.width}}, Initializer::normal(0, kDeviation));
  return builder.add(rows, builder.broadcast_leading(positions, builder.shape(rows), "rows"), "added");
}

ValueId gpt_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  ValueId x = dropout(context, gpt_embedding(context, tokens, config), config.dropout, "dropout");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto scope = context.builder.scope("blocks." + std::to_string(layer));
    x = gpt_block(context, x, config);
  }
  return linear(context, layer_norm(context, x, "norm"), config.vocabulary, "head", kDeviation, false);
}

ValueId mlp_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  Builder& builder = context.builder;
  ValueId x = embedding(context, tokens, config.vocabulary, config.embedding, "tokens");
  x = builder.reshape(x, {builder.shape(x)[0], config.context * config.embedding}, "tokens.joined");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = "hidden." + std::to_string(layer);
    const ValueId hidden = linear(context, x, config.width, name);
    const auto scope = builder.scope(name);
    x = dropout(context, relu(context, hidden), config.dropout, "dropout");
  }
  return linear(context, x, config.vocabulary, "head");
}

/// The label after the last token.
ValueId last_label(Builder& builder, ValueId labels) {
  const int64_t batch = builder.shape(labels)[0], context = builder.shape(labels)[1];
  const ValueId column = builder.slice(labels, {0, context - 1}, {batch, context}, {1, 1}, "labels.last");
  return builder.reshape(column, {batch}, "labels.next");
}

std::string divisors(int64_t number) {
  std::vector<std::string> list;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) list.push_back(std::to_string(divisor));
  return join(list, ", ");
}

void check_heads(const ModelConfig& config, const std::string& file) {
  if (config.kind != "gpt" || config.width % config.heads == 0) return;
  throw UserError(
      file + ": model.heads = " + std::to_string(config.heads) + " does not divide model.width = " + std::to_string(config.width),
      "every head takes the same number of channels, width / heads", "set model.heads to one of " + divisors(config.width),
      ExitCode::kBadConfig);
}

}  // namespace

ModelConfig read_model_config(ConfigTable table) {
  ModelConfig config;
  config.kind = table.choice("kind", config.kind, {"gpt", "mlp"});
  config.context = table.integer("context", config.context, 1, 1 << 20);
  config.layers = table.integer("layers", config.layers, 1, 1000);
  config.width = table.integer("width", config.width, 1, 1 << 20);
  config.heads = table.integer("heads", config.heads, 1, 1 << 20);
  config.embedding = table.integer("embedding", config.embedding, 1, 1 << 20);
  config.dropout = table.number("dropout", config.dropout, 0, 0.99);
  table.finish();
  check_heads(config, table.file());
  return config;
}

Graph build_model(const ModelConfig& config, const BuildOptions& options) {
  Graph graph;
  Builder builder(graph, options.seed);
  const ModelInputs inputs = add_inputs(builder, config, options);
  LayerContext context{builder, inputs.step, options.training};
  const bool is_gpt = config.kind == "gpt";
  const ValueId logits = is_gpt ? gpt_logits(context, inputs.tokens, config) : mlp_logits(context, inputs.tokens, config);
  graph.add_output("logits", logits);
  if (!options.loss) return graph;
  const ValueId labels = is_gpt ? inputs.labels : last_label(builder, inputs.labels);
  const CrossEntropy entropy = cross_entropy(context, logits, labels, "loss");
  graph.add_output("loss", entropy.loss);
  graph.add_output("count", entropy.count);
  return graph;
}

}  // namespace tessera
