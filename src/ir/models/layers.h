// Layers: compositions of primitive operators with names and scopes. Weights are stored [in, out].
#pragma once

#include <optional>
#include <string_view>

#include "ir/models/internal/model_config.h"
#include "ir/ops/builder.h"

namespace tessera {

/// What normalizations add to a variance.
inline constexpr double kNormEpsilon = 1e-5;

/// A model that reads one token of each row at a time. Its layers keep their state of the earlier
/// tokens in variables.
struct Decoding {
  ValueId place;       // i32[]: position of the token, counted from 0
  int64_t places = 0;  // number of positions of a row
};

struct LayerContext {
  Builder& builder;
  ValueId step;                           // i32[], for random numbers
  bool training = true;                   // enables dropout
  std::optional<Decoding> decoding = {};  // nullopt: layers read whole rows
};

/// x[..., in] w[in, out] + b[out]; variables `<name>.weight`, `<name>.bias`.
ValueId linear(LayerContext& context, ValueId x, int64_t out, std::string_view name,
               double deviation = 0.02, bool bias = true);
/// table f32[rows, width]: the variable `<name>.weight`, for an embedding with more than one use.
ValueId embedding_table(LayerContext& context, int64_t rows, int64_t width, std::string_view name);
/// The rows of table[rows, width] that `ids` select; variable `<name>.weight`.
ValueId embedding(LayerContext& context, ValueId ids, int64_t rows, int64_t width,
                  std::string_view name);
/// Normalizes over the last dim; variables `<name>.weight` (ones), `<name>.bias` (zeros).
ValueId layer_norm(LayerContext& context, ValueId x, std::string_view name,
                   double epsilon = kNormEpsilon);
/// x / sqrt(mean(x^2) + epsilon) times `<name>.weight` (ones), over the last dim; with `plus_one`
/// times 1 + `<name>.weight` (zeros).
///   source  Zhang and Sennrich, arXiv 1910.07467
ValueId rms_norm(LayerContext& context, ValueId x, std::string_view name,
                 double epsilon = kNormEpsilon, bool plus_one = false);
/// Zeros with probability `rate`, else x / (1 - rate); x when not training or rate is 0.
ValueId dropout(LayerContext& context, ValueId x, double rate, std::string_view name);
/// The tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
ValueId gelu(LayerContext& context, ValueId x);
/// 0.5 x (1 + erf(x / sqrt(2))).
ValueId exact_gelu(LayerContext& context, ValueId x);
/// x logistic(1.702 x).
ValueId quick_gelu(LayerContext& context, ValueId x);
ValueId relu(LayerContext& context, ValueId x);
/// The numerically stable softmax over the last dim.
ValueId softmax(LayerContext& context, ValueId x);
/// x logistic(x).
ValueId silu(LayerContext& context, ValueId x);
/// (silu(x gate) * (x up)) down, with inner width `inner`; variables `<name>.{gate,up}.weight`
/// [E,inner], `<name>.down.weight` [inner,E].
///   source  Shazeer, arXiv 2002.05202
ValueId swiglu(LayerContext& context, ValueId x, int64_t inner, double out_deviation,
               std::string_view name);

struct AttentionOptions {
  int64_t heads = 1;
  /// Divides heads: consecutive queries share keys and values; 0: the number of heads.
  int64_t kv_heads = 0;
  bool causal = false;   // a position does not read later positions
  int64_t head = 0;      // features of a head; 0: the width over the heads
  bool bias = true;      // for the projections
  bool out_bias = true;  // for the last one, too
  /// RMS norms of the queries and of the keys of each head, before their rotation: `<name>.q_norm`,
  /// `<name>.k_norm`.
  bool norms = false;
  double norm_epsilon = kNormEpsilon;  // of `norms`
  bool norm_plus_one = false;          // the same, as of rms_norm
  // rotates queries and keys by their positions, see rotary(); 0: no rotation
  double rotary_base = 0;
  int64_t rotary_features = 0;  // the first ones of a head, which are rotated; 0: all
  RotaryScaling rotary_scaling = {};
  /// With causal: a position reads this many, itself and those before it. 0: all.
  int64_t window = 0;
  double out_deviation = 0.02;  // initial deviation of the last weight
};
/// Attention of x[B,S,E] to source[B,T,E], with the variables `<name>.q.weight` [E,H,D],
/// `<name>.{k,v}.weight` [E,G,D] for G kv_heads and `<name>.out.weight` [H,D,E], each with its
/// `.bias` [H,D], [G,D], [E] if any.
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
/// When decoding, `places` is 1, for the position of the token.
///   source  of the scaling llama3: Llama team, arXiv 2407.21783; of linear: Chen et al., arXiv
///           2306.15595
RotaryAngles rotary_angles(LayerContext& context, int64_t places, int64_t half, double base,
                           const RotaryScaling& scaling = {});
/// x[B,S,H,D] with channels c and c + R/2 of each head rotated together by the angle of position
/// and c, for the first R = 2 `half` features of each head; the others are left. So the product of
/// a query and a key depends only on the difference of their positions.
///   requires  2 half <= D, for the angles of `half` channels
///   source    Su et al., arXiv 2104.09864
ValueId rotary(LayerContext& context, ValueId x, const RotaryAngles& angles, std::string_view name);
/// x[B,T,G,D] as [B,T,G*times,D], in which each head occurs `times` times in a row.
ValueId repeat_heads(LayerContext& context, ValueId x, int64_t times, std::string_view name);

struct CrossEntropy {
  ValueId loss;   // f32[]: sum over the valid terms / their number (at least 1)
  ValueId count;  // f32[]: number of valid terms
};
/// The loss of logits[..., V] and labels i32[...]; a label below 0 is not counted. The logit of the
/// label is selected by comparison with iota, so that a split vocabulary needs one reduction and no
/// gather.
CrossEntropy cross_entropy(LayerContext& context, ValueId logits, ValueId labels,
                           std::string_view name);

}  // namespace tessera
