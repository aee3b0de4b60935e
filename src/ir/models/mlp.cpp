// Bengio's language model: hidden layers on the embedded context.
//   source  Bengio et al., J. Machine Learning Research 3, 2003
#include "ir/models/internal/blocks.h"
#include "ir/models/internal/families.h"

namespace tessera {
namespace {

ValueId mlp_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  Builder& builder = context.builder;
  ValueId x = embedding(context, tokens, config.vocabulary, config.embedding, "tokens");
  x = builder.reshape(x, {builder.shape(x)[0], config.context * config.embedding}, "tokens.joined");
  for (int64_t layer = 0; layer < config.layers; ++layer)
    x = hidden_layer(context, x, config, "hidden." + std::to_string(layer));
  return linear(context, x, config.vocabulary, "head");
}

}  // namespace

ModelFamily mlp_family() {
  return {.name = "mlp",
          .keys = {"embedding"},
          .check = check_nothing,
          .logits = mlp_logits,
          .labels = last_label,
          .next_token = next_of_whole_context};
}

}  // namespace tessera
