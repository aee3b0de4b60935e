// Functions for several families. Other modules do not include it.
#pragma once

#include <string>
#include <string_view>

#include "ir/models/internal/model_config.h"
#include "ir/models/layers.h"

namespace tessera {

/// The initial deviation of a weight that ends one of `branches` residual branches, whose variances
/// add up.
///   source  GPT-2, section 2.3
double residual_deviation(int64_t branches);

/// x + positions: x[B,S,E], variable `positions.weight` [rows,E], of which `first` is the row of
/// the first token; rows 0: as many as positions. When decoding it adds the row of the position.
ValueId add_positions(LayerContext& context, ValueId x, int64_t rows = 0, int64_t first = 0);

/// x[B,S,E] times the transpose of table[V,E]: `head.dot`.
ValueId tied_head(LayerContext& context, ValueId x, ValueId table);

/// x + dropout(branch), named residual<number> and dropout<number>.
ValueId add_branch(LayerContext& context, ValueId x, ValueId branch, double rate, int number);

/// gelu(x up) down with 4 x width inside: `ffn.up`, `ffn.down`.
ValueId feed_forward(LayerContext& context, ValueId x, double out_deviation);

/// dropout(relu(x weight + bias)) of width config.width, with the variables `<name>.weight` and
/// `<name>.bias`.
ValueId hidden_layer(LayerContext& context, ValueId x, const ModelConfig& config,
                     const std::string& name);

/// x + attention(norm(x)), then x + feed_forward(norm(x)): `norm1`, `attn`, `norm2`, `ffn`.
ValueId transformer_block(LayerContext& context, ValueId x, const ModelConfig& config, bool causal);

/// config.layers transformer blocks, `blocks.I`.
ValueId transformer_blocks(LayerContext& context, ValueId x, const ModelConfig& config,
                           bool causal);

/// Columns [begin, end) of ids[batch, context].
ValueId columns(Builder& builder, ValueId ids, int64_t begin, int64_t end, std::string_view name);
/// The label after the last token, i32[batch].
ValueId last_label(Builder& builder, ValueId labels);
ValueId all_labels(Builder& builder, ValueId labels);

/// The position that predicts the next token: that of the last known token, or the only row of
/// logits, when the known tokens are at the end of the context.
NextToken next_of_causal(int64_t context, int64_t used);
NextToken next_of_whole_context(int64_t context, int64_t used);

// Checks of a configuration. They throw a UserError (78).
void check_nothing(const ModelConfig& config, const std::string& file);
void check_heads(const ModelConfig& config, const std::string& file);
void check_halves(const ModelConfig& config, const std::string& file);
/// The divisors of `number`, for messages: "1, 2, 3, 6".
std::string divisors(int64_t number);

}  // namespace tessera
