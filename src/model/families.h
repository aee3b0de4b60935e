// The families of models, one source each. Not for other rooms: they use model.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/layers.h"
#include "model/model.h"

namespace tessera {

/// What is particular to one family. All read kind, context, layers, width and dropout.
struct ModelFamily {
  std::string_view name;
  std::vector<std::string_view> keys;  // further ones of the [model] table
  /// Throws the UserError of a configuration that cannot be built; `file` is for its message.
  void (*check)(const ModelConfig& config, const std::string& file);
  ValueId (*logits)(LayerContext& context, ValueId tokens, const ModelConfig& config);
  /// The labels that the logits predict, of labels i32[batch, context].
  ValueId (*labels)(Builder& builder, ValueId labels);
  NextToken (*next_token)(int64_t context, int64_t used);
  bool can_decode = false;
};

/// tokens.weight [V,E], positions.weight [context,E], blocks.I.{norm1, attn.{q,k,v,out}, norm2, ffn.{up,down}} (4 x width inside), norm,
/// head.weight [E,V] unless tied.
ModelFamily gpt_family();
/// tokens.weight, hidden.I.{weight,bias}, head.{weight,bias}.
ModelFamily mlp_family();
/// tokens.weight [V,E], blocks.I.{norm1.weight, attn.{q,k,v,out}.weight, norm2.weight, ffn.{gate,up,down}.weight}, norm.weight,
/// head.weight [E,V].
ModelFamily llama_family();
/// SIDE of left and right: SIDE.{tokens.weight, positions.weight [context/2,E], blocks.I as of gpt, norm}; joined.{weight [2E,E], bias},
/// head.{weight,bias}. A tower attends in both directions and hands on its last place.
ModelFamily two_tower_family();
/// tokens.weight [V,E]; encoder.{positions.weight, blocks.I as of gpt, norm}; decoder.positions.weight,
/// decoder.blocks.I.{norm1, self, norm2, cross, norm3, ffn}, as attn and ffn of gpt; norm, head.weight [E,V].
ModelFamily encoder_decoder_family();

/// The family of that name, which is there.
ModelFamily family_of(std::string_view kind);
std::vector<std::string> family_names();

/// Zeros filled in with what they stand for.
ModelConfig with_defaults(ModelConfig config);

}  // namespace tessera
