// Whole models as serial graphs, from C++ or from the [model] table of a configuration.
#pragma once

#include <string>

#include "base/config_table.h"
#include "base/document.h"
#include "graph/graph.h"

namespace tessera {

/// Channels, rows and columns.
struct ImageSize {
  int64_t channels = 1, rows = 16, columns = 16;
};

/// A model of tokens or of images. Its families, the values of `kind`:
///
///   gpt              pre-norm transformer; the next token at each place
///   llama            the same with RMS norms, rotary positions, grouped heads, SwiGLU and no
///   biases encoder_decoder  an encoder of the first half of the context, a decoder of the second;
///   the next token at each place of the second two_tower        a transformer for each half of the
///   context, then one layer; the token after the context mlp              the embedded context
///   through layers; the token after the context bert             a transformer that sees both
///   sides of each place; the tokens that are masked lstm, gru        recurrent cells, unrolled
///   over the context; the next token at each place image_mlp        the pixels of an image through
///   layers; its class resnet           residual convolutions of an image; its class unet
///   convolutions down to small pictures and up again; a class for each pixel
struct ModelConfig {
  std::string kind = "gpt";
  int64_t vocabulary = 256;  // of tokens
  int64_t classes = 10;      // of images
  ImageSize image = {};
  int64_t context = 64;
  int64_t layers = 2;      // of blocks; of each tower; of the encoder and of the decoder
  int64_t width = 128;     // residual width; mlp: hidden width
  int64_t heads = 4;       // divides width; not of mlp
  int64_t embedding = 32;  // mlp: width of a token's embedding
  double dropout = 0.1;    // not of resnet and unet
  bool tied = false;       // gpt: the head is the transpose of the embedding
  int64_t kv_heads = 0;    // llama: divides heads; 0: as many as heads
  int64_t ffn = 0;         // llama: inner width; 0: 8/3 of width, rounded up to a multiple of 8
  int64_t depth = 20;      // resnet: 18, 20, 34, 50, 56
  double rope_base =
      10'000;  // llama: the slowest rotation has a period of nearly 2 pi times as many places
};

/// Reads and checks the [model] table: the keys of its family but vocabulary, classes and image,
/// which the data gives. throws  UserError (78): unknown key with the nearest legal one, a value
/// out of range, heads that do not divide width (with the
///         divisors), an odd context where halves are wanted
ModelConfig read_model_config(ConfigTable table);

/// The settings of the family in use, defaults filled in: what read_model_config would have to
/// read, and what the data gives.
Document settings_of(const ModelConfig& config);

struct BuildOptions {
  int64_t batch = 1;     // rows of the whole step's batch
  bool training = true;  // dropout
  bool loss = true;      // false: only logits (no labels input)
  bool decode = false;   // reads one token of each row at a time: see can_decode
  uint64_t seed = 0;
};

/// The forward graph.
///
///   inputs    the samples first: tokens i32[batch, context] or images f32[batch, channels, rows,
///   columns]; labels i32[batch, context], of
///             which each family slices those that it predicts, or i32[batch] and i32[batch, rows,
///             columns] of images; step i32[] when training with dropout
///   outputs   logits f32[batch, places, V] (gpt, llama: context places; encoder_decoder:
///   context/2) or f32[batch, V] (mlp, two_tower), f32[batch, classes] of images, f32[batch, rows,
///   columns,
///             classes] of pixels;
///             with loss: loss f32[], count f32[]
///   names     of the parameters: beside each family in families.h
///   init      normal(0, 0.02); those that end a residual branch normal(0, 0.02 / sqrt(branches));
///   biases 0; norms 1 requires  what read_model_config checks; throws InternalError else decode
///   tokens i32[batch, 1] stand at `place` i32[]; logits f32[batch, 1, V] are those that the row
///   would have had there. The
///             places before it must have been decoded, in order, by this graph: variables keep
///             what they left. No loss, no dropout
Graph build_model(const ModelConfig& config, const BuildOptions& options);

/// The first input of the graph of a model: its tokens or images.
ValueId samples_input(const Graph& graph);

/// What a model is for.
enum class Objective { kNextToken, kMaskedToken, kClassOfImage, kClassOfPixel };
Objective objective_of(const ModelConfig& config);
bool is_of_images(Objective objective);

/// Is every token predicted from those before it alone, so that it can be decoded? gpt and llama.
bool can_decode(const ModelConfig& config);

/// Where to find the token after `used` known ones.
struct NextToken {
  int64_t first = 0;  // the place of the first known token in the row of `context` tokens
  int64_t row = 0;    // the row of the logits of one sample
};
/// requires  used <= context, Objective::kNextToken. A model without causal mask wants known tokens
/// at its end: what stands before them is padding.
NextToken next_token(const ModelConfig& config, int64_t used);

}  // namespace tessera
