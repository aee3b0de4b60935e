// BERT's encoder, trained only on masked tokens, without segments and the next-sentence loss (Liu
// et al., arXiv 1907.11692, section 4.2).
//   source  Devlin et al., arXiv 1810.04805; norms before the branches as in Xiong et al., arXiv
//           2002.04745
#include "ir/models/internal/families.h"
#include "ir/models/internal/blocks.h"

namespace tessera {
namespace {

ValueId bert_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  const ValueId rows = embedding(context, tokens, config.vocabulary, config.width, "tokens");
  const ValueId x = dropout(context, add_positions(context, rows), config.dropout, "dropout");
  return linear(context, layer_norm(context, transformer_blocks(context, x, config, false), "norm"),
                config.vocabulary, "head");
}

}  // namespace

ModelFamily bert_family() {
  return {.name = "bert",
          .objective = Objective::kMaskedToken,
          .keys = {"heads"},
          .check = check_heads,
          .logits = bert_logits,
          .labels = all_labels};
}

}  // namespace tessera
