// A config.json of Hugging Face's transformers: the sizes of a model.
#pragma once

#include <string>
#include <vector>

#include "base/files/document.h"

namespace tessera {

/// The settings of a configuration: its tables [model] and [train].
struct ReadModel {
  Document settings;
  std::vector<std::string> notes = {};
};

/// Does it have a model_type?
bool is_hugging_face(const Document& config);

/// gpt2, llama, mistral, qwen2, qwen3, gemma, phi3, gpt_neox and opt as a model of kind decoder,
/// bert as one of kind encoder; the keys of transformers 4 and 5. The step that is assumed: a
/// context of at most 4,096 tokens, 4M tokens in a batch, bf16 (f16 where the weights are), adamw
/// with a clipped norm, no dropout.
///
///   requires  is_hugging_face(config)
///   throws    UserError (65) for another model_type, a key that is missing or malformed, and a
///             value whose arithmetic no model here has
ReadModel read_hugging_face(const Document& config, const std::string& origin);

}  // namespace tessera
