// Layers: compositions of primitive operators with names and scopes. Weights are stored [in, out].
#pragma once

#include <optional>
#include <string_view>

#include "ops/builder.h"

namespace tessera {

/// A model that reads one token of each row at a time. Its layers keep what they need of the
/// earlier tokens in variables.
struct Decoding {
  ValueId place;       // i32[]: position of the token, from 0
  int64_t places = 0;  // of a row
};

struct LayerContext {
  Builder& builder;
  ValueId step;                           // i32[], for random numbers
  bool training = true;                   // dropout only then
  std::optional<Decoding> decoding = {};  // none: layers see whole rows
};

/// x[..., in] w[in, out] + b[out]; variables `<name>.weight`, `<name>.bias`.
ValueId linear(LayerContext& context, ValueId x, int64_t out, std::string_view name,
               double deviation = 0.02, bool bias = true);
/// table f32[rows, width]: the variable `<name>.weight`, for an embedding that has more uses than
/// one.
ValueId embedding_table(LayerContext& context, int64_t rows, int64_t width, std::string_view name);
/// Rows of table[rows, width]; variable `<name>.weight`.
ValueId embedding(LayerContext& context, ValueId ids, int64_t rows, int64_t width,
                  std::string_view name);
/// Over the last dim, epsilon 1e-5; variables `<name>.weight` (ones), `<name>.bias` (zeros).
ValueId layer_norm(LayerContext& context, ValueId x, std::string_view name);
/// Over the last dim, x / sqrt(mean(x^2) + 1e-5) times `<name>.weight` (ones). Source: Zhang and
/// Sennrich, arXiv 1910.07467.
ValueId rms_norm(LayerContext& context, ValueId x, std::string_view name);
/// Zeros with probability `rate`, else x / (1 - rate); x when not training or rate is 0.
ValueId dropout(LayerContext& context, ValueId x, double rate, std::string_view name);
/// tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
ValueId gelu(LayerContext& context, ValueId x);
ValueId relu(LayerContext& context, ValueId x);
/// Over the last dim, stable.
ValueId softmax(LayerContext& context, ValueId x);
/// x logistic(x).
ValueId silu(LayerContext& context, ValueId x);
/// (silu(x gate) * (x up)) down, of width `inner` inside; variables `<name>.{gate,up}.weight`
/// [E,inner], `<name>.down.weight` [inner,E]. Source: Shazeer, arXiv 2002.05202.
ValueId swiglu(LayerContext& context, ValueId x, int64_t inner, double out_deviation,
               std::string_view name);

struct AttentionOptions {
  int64_t heads = 1;  // divides the width
  int64_t kv_heads =
      0;  // divides heads: consecutive queries share keys and values; 0: as many as heads
  bool causal = false;          // a position does not see those after it
  bool bias = true;             // of the projections
  double rotary_base = 0;       // positions by turning queries and keys: see rotary(); 0: none
  double out_deviation = 0.02;  // initial one of the last weight
};
/// Attention of x[B,S,E] to source[B,T,E]: variables `<name>.q.weight` [E,H,D],
/// `<name>.{k,v}.weight` [E,G,D] of G kv_heads,
/// `<name>.out.weight` [H,D,E], each with its `.bias` [H,D], [G,D], [E] if any.
/// When decoding, x is one position, S = 1, and the variables `<name>.{k,v}.cache`
/// [B,positions,G,D] hold the keys and values of the positions up to it: this step writes its
/// position, earlier steps wrote the earlier ones, and the later ones are not read.
///   requires  when decoding: causal, and x is source
ValueId attention(LayerContext& context, ValueId x, ValueId source, const AttentionOptions& options,
                  std::string_view name);
inline ValueId self_attention(LayerContext& context, ValueId x, const AttentionOptions& options,
                              std::string_view name) {
  return attention(context, x, x, options, name);
}

/// cos and sin f32[places, half] of the angles place * base^(-c / half) of channel c.
struct RotaryAngles {
  ValueId cos, sin;
};
/// When decoding, places is 1: that of the token.
RotaryAngles rotary_angles(LayerContext& context, int64_t places, int64_t half, double base);
/// x[B,S,H,D], where channels c and c + D/2 of each head are turned together by the angle of place
/// and c: the product of a query and a key then depends on the difference of their places only.
/// Source: Su et al., arXiv 2104.09864.
///   requires  an even D
ValueId rotary(LayerContext& context, ValueId x, const RotaryAngles& angles, std::string_view name);
/// x[B,T,G,D] as [B,T,G*times,D]: each head `times` times in a row.
ValueId repeat_heads(LayerContext& context, ValueId x, int64_t times, std::string_view name);

struct CrossEntropy {
  ValueId loss;   // f32[]: sum over the valid terms / their number (at least 1)
  ValueId count;  // f32[]: number of valid terms
};
/// logits[..., V], labels i32[...]; a label below 0 is not counted. The picked logit is found by
/// comparing with iota, so that a split vocabulary needs one reduction and no gather.
CrossEntropy cross_entropy(LayerContext& context, ValueId logits, ValueId labels,
                           std::string_view name);

}  // namespace tessera
