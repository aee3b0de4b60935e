// LLaMA's transformer: RMS norms, rotary positions, grouped heads, SwiGLU, no biases. With biases
// of queries, keys and values it is Qwen 2's, with norms of the heads Qwen 3's.
//   source  Touvron et al., arXiv 2307.09288; Yang et al., arXiv 2407.10671 and 2505.09388
#include "base/error.h"
#include "ir/models/internal/families.h"
#include "ir/models/internal/blocks.h"

namespace tessera {
namespace {

ValueId block(LayerContext& context, ValueId x, const ModelConfig& config) {
  const AttentionOptions attention{.heads = config.heads,
                                   .kv_heads = config.kv_heads,
                                   .causal = true,
                                   .head = config.head,
                                   .bias = config.qkv_bias,
                                   .out_bias = false,
                                   .norms = config.head_norms,
                                   .rotary_base = config.rope_base,
                                   .out_deviation = residual_deviation(2 * config.layers)};
  const ValueId mixed = self_attention(context, rms_norm(context, x, "norm1"), attention, "attn");
  x = add_branch(context, x, mixed, config.dropout, 1);
  const ValueId fed =
      swiglu(context, rms_norm(context, x, "norm2"), config.ffn, attention.out_deviation, "ffn");
  return add_branch(context, x, fed, config.dropout, 2);
}

ValueId llama_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  const ValueId table = embedding_table(context, config.vocabulary, config.width, "tokens");
  const ValueId rows = context.builder.gather(table, tokens, "tokens.rows");
  ValueId x = dropout(context, rows, config.dropout, "dropout");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto scope = context.builder.scope("blocks." + std::to_string(layer));
    x = block(context, x, config);
  }
  x = rms_norm(context, x, "norm");
  return config.tied ? tied_head(context, x, table)
                     : linear(context, x, config.vocabulary, "head", 0.02, false);
}

void check_llama(const ModelConfig& config, const std::string& file) {
  if (config.head == 0) check_heads(config, file);
  const ModelConfig whole = with_defaults(config);
  if (config.heads % whole.kv_heads != 0)
    throw UserError(file + ": model.kv_heads = " + std::to_string(config.kv_heads) +
                        " does not divide model.heads = " + std::to_string(config.heads),
                    "as many heads of queries share each head of keys and values, heads / kv_heads",
                    "set model.kv_heads to one of " + divisors(config.heads), ExitCode::kBadConfig);
  if (config.head % 2 != 0)
    throw UserError(file + ": model.head = " + std::to_string(config.head),
                    "rotary positions turn channels in pairs, so it must be even",
                    "set model.head to an even number, or to 0 for width / heads",
                    ExitCode::kBadConfig);
  if (config.head == 0 && config.width / config.heads % 2 != 0)
    throw UserError(file + ": the heads of model.width = " + std::to_string(config.width) +
                        " and model.heads = " + std::to_string(config.heads) + " have " +
                        std::to_string(config.width / config.heads) + " channels",
                    "rotary positions turn channels in pairs, so width / heads must be even",
                    "set model.width to a multiple of " + std::to_string(2 * config.heads),
                    ExitCode::kBadConfig);
}

}  // namespace

ModelFamily llama_family() {
  return {
      .name = "llama",
      .keys = {"heads", "head", "tied", "kv_heads", "ffn", "rope_base", "qkv_bias", "head_norms"},
      .check = check_llama,
      .logits = llama_logits,
      .labels = all_labels,
      .next_token = next_of_causal,
      .can_decode = true};
}

}  // namespace tessera
