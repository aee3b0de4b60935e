// GPT-2's transformer.
//   source  Radford et al., Language models are unsupervised multitask learners, 2019
#include "ir/models/internal/families.h"
#include "ir/models/internal/blocks.h"

namespace tessera {
namespace {

ValueId gpt_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  const ValueId table = embedding_table(context, config.vocabulary, config.width, "tokens");
  const ValueId rows = context.builder.gather(table, tokens, "tokens.rows");
  ValueId x = dropout(context, add_positions(context, rows), config.dropout, "dropout");
  x = layer_norm(context, transformer_blocks(context, x, config, true), "norm");
  return config.tied ? tied_head(context, x, table)
                     : linear(context, x, config.vocabulary, "head", 0.02, false);
}

}  // namespace

ModelFamily gpt_family() {
  return {.name = "gpt",
          .keys = {"heads", "tied"},
          .check = check_heads,
          .logits = gpt_logits,
          .labels = all_labels,
          .next_token = next_of_causal,
          .can_decode = true};
}

}  // namespace tessera
