// Two independent transformers, one for each half of the context, and a layer that joins their
// results. This program is not a chain.
#include "base/error.h"
#include "ir/models/internal/blocks.h"
#include "ir/models/internal/families.h"

namespace tessera {
namespace {

/// x[B,S,E] at its last position, [B,E].
ValueId last_place(Builder& builder, ValueId x) {
  const Shape shape = builder.shape(x);
  const ValueId last =
      builder.slice(x, {0, shape[1] - 1, 0}, {shape[0], shape[1], shape[2]}, {1, 1, 1}, "last");
  return builder.reshape(last, {shape[0], shape[2]}, "summary");
}

/// The result of a tower on columns [begin, end) of the context, [B,E].
ValueId tower(LayerContext& context, ValueId tokens, int64_t begin, int64_t end,
              const ModelConfig& config, std::string_view name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const ValueId half = columns(builder, tokens, begin, end, "half");
  const ValueId rows = embedding(context, half, config.vocabulary, config.width, "tokens");
  const ValueId x = dropout(context, add_positions(context, rows), config.dropout, "dropout");
  return last_place(builder,
                    layer_norm(context, transformer_blocks(context, x, config, false), "norm"));
}

ValueId join(LayerContext& context, ValueId left, ValueId right, const ModelConfig& config) {
  const ValueId both = context.builder.concat({left, right}, 1, "joined.both");
  const ValueId hidden = linear(context, both, config.width, "joined");
  const auto scope = context.builder.scope("joined");
  return dropout(context, gelu(context, hidden), config.dropout, "dropout");
}

ValueId two_tower_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  ensure(config.context % 2 == 0, "the context has two halves");
  const ValueId left = tower(context, tokens, 0, config.context / 2, config, "left");
  const ValueId right = tower(context, tokens, config.context / 2, config.context, config, "right");
  return linear(context, join(context, left, right, config), config.vocabulary, "head");
}

}  // namespace

ModelFamily two_tower_family() {
  return {.name = "two_tower",
          .keys = {"heads"},
          .check = check_halves,
          .logits = two_tower_logits,
          .labels = last_label,
          .next_token = next_of_whole_context};
}

}  // namespace tessera
