// Layers: compositions of primitive operators with names and scopes. Weights are stored [in, out].
#pragma once

#include <string_view>

#include "ops/builder.h"

namespace tessera {

struct LayerContext {
  Builder& builder;
  ValueId step;          // i32[], for random numbers
  bool training = true;  // dropout only then
};

/// x[..., in] w[in, out] + b[out]; variables `<name>.weight`, `<name>.bias`.
ValueId linear(LayerContext& context, ValueId x, int64_t out, std::string_view name, double deviation = 0.02, bool bias = true);
/// Rows of table[rows, width]; variable `<name>.weight`.
ValueId embedding(LayerContext& context, ValueId ids, int64_t rows, int64_t width, std::string_view name);
/// Over the last dim, epsilon 1e-5; variables `<name>.weight` (ones), `<name>.bias` (zeros).
ValueId layer_norm(LayerContext& context, ValueId x, std::string_view name);
/// Zeros with probability `rate`, else x / (1 - rate); x when not training or rate is 0.
ValueId dropout(LayerContext& context, ValueId x, double rate, std::string_view name);
/// tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
ValueId gelu(LayerContext& context, ValueId x);
ValueId relu(LayerContext& context, ValueId x);
/// Over the last dim, stable.
ValueId softmax(LayerContext& context, ValueId x);
/// Causal or full multi-head self-attention on x[B,S,E]: variables `<name>.{q,k,v}.weight` [E,H,D], `.bias` [H,D], `<name>.out.weight`
/// [H,D,E], `.bias` [E].
ValueId self_attention(LayerContext& context, ValueId x, int64_t heads, bool causal, double out_deviation, std::string_view name);

struct CrossEntropy {
  ValueId loss;   // f32[]: sum over the valid terms / their number (at least 1)
  ValueId count;  // f32[]: number of valid terms
};
/// logits[..., V], labels i32[...]; a label below 0 is not counted. The picked logit is found by comparing with iota, so that a split
/// vocabulary needs one reduction and no gather.
CrossEntropy cross_entropy(LayerContext& context, ValueId logits, ValueId labels, std::string_view name);

}  // namespace tessera
