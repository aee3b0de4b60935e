#include "ir/models/internal/blocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

double residual_deviation(int64_t branches) {
  return 0.02 / std::sqrt(static_cast<double>(branches));
}

ValueId add_positions(LayerContext& context, ValueId x, int64_t rows, int64_t first) {
  Builder& builder = context.builder;
  const auto scope = builder.scope("positions");
  const Shape shape = builder.shape(x);
  const int64_t places = context.decoding ? context.decoding->places : shape[1];
  if (rows == 0) rows = first + places;
  ValueId positions =
      builder.variable("weight", {DType::kF32, {rows, shape[2]}}, Initializer::normal(0, 0.02));
  if (context.decoding) {
    ValueId place = builder.reshape(context.decoding->place, {1}, "place");
    if (first > 0)
      place = builder.add(place, builder.constant({DType::kI32, {1}}, static_cast<double>(first)),
                          "row_of_place");
    positions = builder.gather(positions, place, "row");
  } else if (rows != places) {
    positions =
        builder.slice(positions, {first, 0}, {first + places, shape[2]}, {1, 1}, "of_context");
  }
  return builder.add(x, builder.broadcast_leading(positions, shape, "rows"), "added");
}

ValueId tied_head(LayerContext& context, ValueId x, ValueId table) {
  const auto scope = context.builder.scope("head");
  return context.builder.dot(x, table, "bse,ve->bsv", "dot");
}

ValueId add_branch(LayerContext& context, ValueId x, ValueId branch, double rate, int number) {
  const ValueId kept = dropout(context, branch, rate, "dropout" + std::to_string(number));
  return context.builder.add(x, kept, "residual" + std::to_string(number));
}

ValueId feed_forward(LayerContext& context, ValueId x, double out_deviation) {
  const auto scope = context.builder.scope("ffn");
  const int64_t width = context.builder.shape(x)[2];
  const ValueId hidden = gelu(context, linear(context, x, 4 * width, "up"));
  return linear(context, hidden, width, "down", out_deviation);
}

ValueId hidden_layer(LayerContext& context, ValueId x, const ModelConfig& config,
                     const std::string& name) {
  const ValueId hidden = linear(context, x, config.width, name);
  const auto scope = context.builder.scope(name);
  return dropout(context, relu(context, hidden), config.dropout, "dropout");
}

ValueId transformer_block(LayerContext& context, ValueId x, const ModelConfig& config,
                          bool causal) {
  const double deviation = residual_deviation(2 * config.layers);
  const AttentionOptions attention{
      .heads = config.heads, .causal = causal, .out_deviation = deviation};
  const ValueId mixed = self_attention(context, layer_norm(context, x, "norm1"), attention, "attn");
  x = add_branch(context, x, mixed, config.dropout, 1);
  const ValueId fed = feed_forward(context, layer_norm(context, x, "norm2"), deviation);
  return add_branch(context, x, fed, config.dropout, 2);
}

ValueId transformer_blocks(LayerContext& context, ValueId x, const ModelConfig& config,
                           bool causal) {
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto scope = context.builder.scope("blocks." + std::to_string(layer));
    x = transformer_block(context, x, config, causal);
  }
  return x;
}

ValueId columns(Builder& builder, ValueId ids, int64_t begin, int64_t end, std::string_view name) {
  const int64_t rows = builder.shape(ids)[0];
  return builder.slice(ids, {0, begin}, {rows, end}, {1, 1}, name);
}

ValueId last_label(Builder& builder, ValueId labels) {
  const Shape shape = builder.shape(labels);
  return builder.reshape(columns(builder, labels, shape[1] - 1, shape[1], "labels.last"),
                         {shape[0]}, "labels.next");
}

ValueId all_labels(Builder&, ValueId labels) {
  return labels;
}

NextToken next_of_causal(int64_t, int64_t used) {
  return {.first = 0, .row = std::max<int64_t>(used - 1, 0)};
}

NextToken next_of_whole_context(int64_t context, int64_t used) {
  return {.first = context - used, .row = 0};
}

void check_nothing(const ModelConfig&, const std::string&) {}

void check_heads(const ModelConfig& config, const std::string& file) {
  if (config.width % config.heads == 0) return;
  throw UserError(file + ": model.heads = " + std::to_string(config.heads) +
                      " does not divide model.width = " + std::to_string(config.width),
                  "every head takes the same number of channels, width / heads",
                  "set model.heads to one of " + divisors(config.width), ExitCode::kBadConfig);
}

void check_halves(const ModelConfig& config, const std::string& file) {
  check_heads(config, file);
  if (config.context % 2 == 0) return;
  throw UserError(file + ": model.context = " + std::to_string(config.context) + " is odd",
                  "a model of kind " + config.kind + " takes the two halves of the context apart",
                  "set model.context to " + std::to_string(config.context + 1),
                  ExitCode::kBadConfig);
}

std::string divisors(int64_t number) {
  std::vector<std::string> list;
  for (int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) list.push_back(std::to_string(divisor));
  return join(list, ", ");
}

}  // namespace tessera
