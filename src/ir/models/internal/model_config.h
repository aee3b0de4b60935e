// The settings of a model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

struct ImageSize {
  int64_t channels = 1, rows = 16, columns = 16;
};

/// Low-rank adaptation (Hu et al., ICLR 2022): of a linear layer whose weight W matches a target,
/// the result is W x + alpha / rank B (A x). Only A and B are trained (ir/models/lora.h).
struct Lora {
  int64_t rank = 0;                                            // 0: none
  double alpha = 16;                                           // above 0
  std::vector<std::string> targets = {"*.attn.{q,v}.weight"};  // patterns of weights, as in marks
};

struct GraphModel;  // ir/models/graph_file.h

/// How rotary positions are stretched to contexts that are longer than those of the training.
struct RotaryScaling {
  std::string kind = "none";  // "linear": angles / factor; "llama3": only those that turn slowly
  double factor = 1;
  /// llama3: channels that turn less than `low` times in `context` positions are divided, those
  /// that turn more than `high` times are not, and those between by parts.
  double low = 1, high = 4;
  int64_t context = 8192;
};

/// What differs between the transformers of published models.
struct TransformerForm {
  /// "layer"; "rms"; "rms_plus_one", whose weight is what is added to one (Gemma)
  std::string norm = "rms";
  double norm_epsilon = 1e-5;
  /// "before" each branch; "after" its sum with the residual (BERT); "parallel": both branches read
  /// the same input, each through its norm (GPT-NeoX)
  std::string norm_place = "before";
  std::string activation = "silu";   // also "gelu", "gelu_tanh", "gelu_quick", "relu"
  bool gated = true;                 // activation(x gate) * (x up), else activation(x up)
  std::string positions = "rotary";  // or "learned"
  int64_t position_rows = 0;         // learned: rows of the table; 0: those of the context
  int64_t first_position = 0;        // learned: the row of the first token (OPT: 2)
  double rotary_share = 1;           // of the features of a head, the first ones are rotated
  RotaryScaling rotary_scaling = {};
  bool out_bias = false;          // with qkv_bias: of the last product of attention, too
  bool ffn_bias = false;          // of the products of the feed-forward
  bool head_bias = false;         // of the logits
  bool scaled_embedding = false;  // times the square root of the width (Gemma)
  int64_t window = 0;             // positions that attention reads; 0: all earlier ones
  int64_t token_types = 0;        // encoder: rows of a table whose first one is added (BERT)
  bool embedding_norm = false;    // encoder: a norm of the embeddings
  bool head_transform = false;    // encoder: a product, activation and norm before the logits
};

/// A model of tokens or of images. The values of `kind`, and the prediction of each model:
///
///   gpt              pre-norm transformer; predicts the next token at each position
///   llama            the same with RMS norms, rotary positions, grouped heads, SwiGLU and no
///                    biases
///   encoder_decoder  an encoder of the first half of the context and a decoder of the second;
///                    predicts the next token at each position of the second half
///   two_tower        a transformer for each half of the context, then one layer; predicts the
///                    token after the context
///   mlp              layers on the embedded context; predicts the token after the context
///   bert             a transformer that reads both sides of each position; predicts the masked
///                    tokens
///   decoder          a transformer of any TransformerForm; predicts the next token at each
///   position encoder          the same, which reads both sides of each position; predicts the
///   masked tokens lstm, gru        recurrent cells; predict the next token at each position
///   image_mlp        layers on the pixels of an image; predicts its class
///   resnet           residual convolutions of an image; predicts its class
///   unet             convolutions down to small images and up again; predicts a class for each
///                    pixel
///   graph            the network of a graph file
struct ModelConfig {
  std::string kind = "gpt";
  int64_t vocabulary = 256;  // number of tokens
  /// The vocabulary that a configuration gives, so that plans need no data; 0: the data gives it.
  int64_t given_vocabulary = 0;
  int64_t classes = 10;  // number of classes of images
  ImageSize image = {};
  int64_t context = 64;
  int64_t layers = 2;  // number of blocks, of each tower, or of the encoder and of the decoder each
  int64_t width = 128;      // residual width; mlp: hidden width
  int64_t heads = 4;        // divides width; not for mlp
  int64_t embedding = 32;   // mlp: width of a token's embedding
  double dropout = 0.1;     // not for resnet and unet
  bool tied = false;        // gpt, llama: the head is the transpose of the embedding
  int64_t kv_heads = 0;     // llama: divides heads; 0: as many as heads
  int64_t ffn = 0;          // llama: inner width; 0: 8/3 of width, rounded up to a multiple of 8
  int64_t head = 0;         // llama: features of a head; 0: width / heads
  bool qkv_bias = false;    // llama: have queries, keys and values biases?
  bool head_norms = false;  // llama: are queries and keys of each head normed?
  int64_t depth = 20;       // resnet: 18, 20, 34, 50, 56
  /// llama: the slowest rotation has a period of nearly 2 pi times as many positions.
  double rope_base = 10'000;
  Lora lora = {};
  TransformerForm form = {};                     // decoder, encoder
  std::shared_ptr<const GraphModel> graph = {};  // of the kind graph: never null
};

/// The prediction of a model.
enum class Objective { kNextToken, kMaskedToken, kClassOfImage, kClassOfPixel, kOther };

/// The position of the prediction of the token after the known ones.
struct NextToken {
  int64_t first = 0;  // position of the first known token in the row of `context` tokens
  int64_t row = 0;    // row of the logits of one sample
};

}  // namespace tessera
