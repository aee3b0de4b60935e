// The original transformer: an encoder, and a decoder that attends to it.
//   source  Vaswani et al., arXiv 1706.03762; norms before the branches as in Xiong et al., arXiv
//           2002.04745
#include <algorithm>

#include "base/error.h"
#include "ir/models/internal/blocks.h"
#include "ir/models/internal/families.h"

namespace tessera {
namespace {

/// tokens i32[B,S], embedded by `table`, with positions of their own.
ValueId embedded(LayerContext& context, ValueId tokens, ValueId table, const ModelConfig& config) {
  const ValueId rows = context.builder.gather(table, tokens, "tokens");
  return dropout(context, add_positions(context, rows), config.dropout, "dropout");
}

ValueId encode(LayerContext& context, ValueId tokens, ValueId table, const ModelConfig& config) {
  const auto scope = context.builder.scope("encoder");
  const ValueId half = columns(context.builder, tokens, 0, config.context / 2, "half");
  const ValueId x = embedded(context, half, table, config);
  return layer_norm(context, transformer_blocks(context, x, config, false), "norm");
}

ValueId decoder_block(LayerContext& context, ValueId x, ValueId memory, const ModelConfig& config) {
  const double deviation = residual_deviation(3 * config.layers);
  AttentionOptions attend{.heads = config.heads, .causal = true, .out_deviation = deviation};
  const ValueId mixed = self_attention(context, layer_norm(context, x, "norm1"), attend, "self");
  x = add_branch(context, x, mixed, config.dropout, 1);
  attend.causal = false;
  const ValueId looked_up =
      attention(context, layer_norm(context, x, "norm2"), memory, attend, "cross");
  x = add_branch(context, x, looked_up, config.dropout, 2);
  const ValueId fed = feed_forward(context, layer_norm(context, x, "norm3"), deviation);
  return add_branch(context, x, fed, config.dropout, 3);
}

ValueId decode(LayerContext& context, ValueId tokens, ValueId table, ValueId memory,
               const ModelConfig& config) {
  const auto scope = context.builder.scope("decoder");
  const ValueId half = columns(context.builder, tokens, config.context / 2, config.context, "half");
  ValueId x = embedded(context, half, table, config);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto block = context.builder.scope("blocks." + std::to_string(layer));
    x = decoder_block(context, x, memory, config);
  }
  return x;
}

ValueId encoder_decoder_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  ensure(config.context % 2 == 0, "the context has two halves");
  const ValueId table = embedding_table(context, config.vocabulary, config.width, "tokens");
  const ValueId memory = encode(context, tokens, table, config);
  const ValueId x = decode(context, tokens, table, memory, config);
  return linear(context, layer_norm(context, x, "norm"), config.vocabulary, "head", 0.02, false);
}

ValueId labels_of_second_half(Builder& builder, ValueId labels) {
  const int64_t context = builder.shape(labels)[1];
  return columns(builder, labels, context / 2, context, "labels.second_half");
}

/// The last known token is in the second half. A few tokens are moved there, with padding before
/// them.
NextToken next(int64_t context, int64_t used) {
  const int64_t half = context / 2;
  return {.first = std::max<int64_t>(half + 1 - used, 0),
          .row = std::max<int64_t>(used - half - 1, 0)};
}

}  // namespace

ModelFamily encoder_decoder_family() {
  return {.name = "encoder_decoder",
          .keys = {"heads"},
          .check = check_halves,
          .logits = encoder_decoder_logits,
          .labels = labels_of_second_half,
          .next_token = next};
}

}  // namespace tessera
