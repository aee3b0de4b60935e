// Whole models as serial graphs, from C++ or from the [model] table of a configuration.
#pragma once

#include <string>

#include "base/config_table.h"
#include "graph/graph.h"

namespace tessera {

/// A language model over tokens: from `context` tokens to the next one at each place (gpt) or after the last (mlp).
struct ModelConfig {
  std::string kind = "gpt";  // "gpt", "mlp"
  int64_t vocabulary = 256;
  int64_t context = 64;
  int64_t layers = 2;
  int64_t width = 128;     // gpt: residual width; mlp: hidden width
  int64_t heads = 4;       // gpt; divides width
  int64_t embedding = 32;  // mlp: width of a token's embedding
  double dropout = 0.1;
};

/// Reads and checks the [model] table (all keys but vocabulary, which the data gives).
/// throws  UserError (78): unknown key with the nearest legal one, a value out of range, heads that do not divide width (with the divisors)
ModelConfig read_model_config(ConfigTable table);

struct BuildOptions {
  int64_t batch = 1;     // rows of the whole step's batch
  bool training = true;  // dropout
  bool loss = true;      // false: only logits (no labels input)
  uint64_t seed = 0;
};

/// The forward graph.
///
///   inputs    tokens i32[batch, context]; labels i32[batch, context] (gpt predicts every next token; mlp looks at the whole context and
///   predicts the last
///             label only: it slices labels[:, context-1]); step i32[] when training with dropout
///   outputs   logits f32[batch, context, V] (gpt) or f32[batch, V] (mlp); with loss: loss f32[], count f32[]
///   names     gpt: tokens.weight [V,E], positions.weight [context,E], blocks.I.norm1, blocks.I.attn.{q,k,v,out}, blocks.I.norm2,
///   blocks.I.ffn.{up,down}
///             (4 x width), norm, head.weight [E,V]; mlp: tokens.weight, hidden.I.{weight,bias}, head.{weight,bias}
///   init      normal(0, 0.02); those that end a residual branch normal(0, 0.02 / sqrt(2 layers)); biases 0; norms 1
Graph build_model(const ModelConfig& config, const BuildOptions& options);

}  // namespace tessera
