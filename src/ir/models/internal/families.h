// The families of models, one source each. Other modules use model.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/models/internal/model_config.h"
#include "ir/models/layers.h"

namespace tessera {

/// The settings and functions of one family. All families read `kind`; families of tokens also read
/// `context`.
struct ModelFamily {
  std::string_view name;
  Objective objective = Objective::kNextToken;
  std::vector<std::string_view> keys;  // further keys of the [model] table
  bool has_layers = true;              // does it read layers, width and dropout?
  bool has_dropout = true;             // does it read dropout?
  /// Throws the UserError of a configuration that cannot be built; `file` is for its message.
  void (*check)(const ModelConfig& config, const std::string& file);
  /// The logits of tokens i32[batch, context] or images f32[batch, channels, rows, columns].
  ValueId (*logits)(LayerContext& context, ValueId samples, const ModelConfig& config);
  /// The labels that the logits predict, out of all labels.
  ValueId (*labels)(Builder& builder, ValueId labels);
  NextToken (*next_token)(int64_t context, int64_t used) = nullptr;  // for kNextToken
  bool can_decode = false;
};

/// tokens.weight [V,E], positions.weight [context,E], blocks.I.{norm1, attn.{q,k,v,out}, norm2,
/// ffn.{up,down}} (4 x width inside), norm, head.weight [E,V] unless tied.
ModelFamily gpt_family();
/// tokens.weight, hidden.I.{weight,bias}, head.{weight,bias}.
ModelFamily mlp_family();
/// tokens.weight [V,E], blocks.I.{norm1.weight, attn.{q,k,v,out}.weight, norm2.weight,
/// ffn.{gate,up,down}.weight}, norm.weight, head.weight [E,V] unless tied; with
/// qkv_bias blocks.I.attn.{q,k,v}.bias, with head_norms blocks.I.attn.{q,k}_norm.weight.
ModelFamily llama_family();
/// SIDE is left or right: SIDE.{tokens.weight, positions.weight [context/2,E], blocks.I as in gpt,
/// norm}; joined.{weight [2E,E], bias}, head.{weight,bias}. A tower attends in both directions and
/// passes on its last position.
ModelFamily two_tower_family();
/// tokens.weight [V,E]; encoder.{positions.weight, blocks.I as in gpt, norm};
/// decoder.positions.weight, decoder.blocks.I.{norm1, self, norm2, cross, norm3, ffn}, with attn
/// and ffn as in gpt; norm, head.weight [E,V].
ModelFamily encoder_decoder_family();

/// As gpt, but with attention in both directions; norm, head.{weight,bias}.
ModelFamily bert_family();
/// As llama, with what TransformerForm has: positions.weight [rows,E], biases of norms and
/// products, head.bias.
ModelFamily decoder_family();
/// As decoder; types.weight [token_types,E], embedding_norm, transform.{dense,norm}.
ModelFamily encoder_family();
/// tokens.weight [V,E], rnn.I.{weight_ih [E or H,4,H], weight_hh [H,4,H], bias_ih, bias_hh [4,H]}
/// with the gates i, f, g, o, head.{weight,bias}.
ModelFamily lstm_family();
/// As lstm, with the three gates r, z, n.
ModelFamily gru_family();
/// hidden.I.{weight,bias}, head.{weight,bias}.
ModelFamily image_mlp_family();

/// The names of torchvision: conv1.weight, bn1, layerS.I.{convN.weight, bnN, downsample.0.weight,
/// downsample.1}, fc.{weight,bias}; norms as in batch_norm.
ModelFamily resnet_family();
/// {down.L, bottom, up.L.block}.{conv1,conv2}.weight with bn1, bn2; up.L.up.weight;
/// head.{weight,bias}; `width` channels at the first of `layers` levels, twice as many at each
/// further one.
ModelFamily unet_family();

///   requires  a family has that name
ModelFamily family_of(std::string_view kind);
std::vector<std::string> family_names();

}  // namespace tessera
