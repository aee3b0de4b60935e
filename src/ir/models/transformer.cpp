// Transformers: what GPT-2, LLaMA, Qwen, Gemma, Phi-3, GPT-NeoX, OPT and BERT have in common, with
// the form that tells them apart.
//   source  Radford et al., Language models are unsupervised multitask learners, 2019; Touvron et
//           al., arXiv 2307.09288; Yang et al., arXiv 2407.10671 and 2505.09388; Gemma team, arXiv
//           2403.08295; Black et al., arXiv 2204.06745; Zhang et al., arXiv 2205.01068; Devlin et
//           al., arXiv 1810.04805
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/models/internal/blocks.h"
#include "ir/models/internal/families.h"
#include "ir/models/model.h"

namespace tessera {
namespace {

/// A transformer of one form.
class Transformer {
 public:
  Transformer(LayerContext& context, const ModelConfig& config, bool causal)
      : context_(context),
        builder_(context.builder),
        config_(config),
        form_(config.form),
        causal_(causal),
        out_deviation_(residual_deviation(2 * config.layers)) {}

  ValueId logits(ValueId tokens) {
    const ValueId table = embedding_table(context_, config_.vocabulary, config_.width, "tokens");
    ValueId x = dropout(context_, embedded(builder_.gather(table, tokens, "tokens.rows")),
                        config_.dropout, "dropout");
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const auto scope = builder_.scope("blocks." + std::to_string(layer));
      x = block(x);
    }
    if (form_.norm_place != "after") x = norm(x, "norm");
    if (form_.head_transform) x = transformed(x);
    return head(x, table);
  }

 private:
  ValueId norm(ValueId x, std::string_view name) {
    if (form_.norm == "layer") return layer_norm(context_, x, name, form_.norm_epsilon);
    return rms_norm(context_, x, name, form_.norm_epsilon, form_.norm == "rms_plus_one");
  }

  ValueId activation(ValueId x) {
    if (form_.activation == "silu") return silu(context_, x);
    if (form_.activation == "gelu") return exact_gelu(context_, x);
    if (form_.activation == "gelu_quick") return quick_gelu(context_, x);
    return form_.activation == "relu" ? relu(context_, x) : gelu(context_, x);
  }

  ValueId embedded(ValueId x) {
    if (form_.scaled_embedding)
      x = builder_.mul_scalar(x, std::sqrt(static_cast<double>(config_.width)), "tokens.scaled");
    if (form_.token_types > 0) {
      const ValueId types = embedding_table(context_, form_.token_types, config_.width, "types");
      const ValueId first =
          builder_.slice(types, {0, 0}, {1, config_.width}, {1, 1}, "types.first");
      const ValueId row = builder_.reshape(first, {config_.width}, "types.row");
      x = builder_.add(x, builder_.broadcast_leading(row, builder_.shape(x), "types.rows"),
                       "types.added");
    }
    if (form_.positions == "learned")
      x = add_positions(context_, x, form_.position_rows, form_.first_position);
    return form_.embedding_norm ? norm(x, "embedding_norm") : x;
  }

  ValueId attend(ValueId x) {
    const bool is_rotary = form_.positions == "rotary";
    const auto turned =
        static_cast<int64_t>(form_.rotary_share * static_cast<double>(config_.head));
    return self_attention(context_, x,
                          {.heads = config_.heads,
                           .kv_heads = config_.kv_heads,
                           .causal = causal_,
                           .head = config_.head,
                           .bias = config_.qkv_bias,
                           .out_bias = form_.out_bias,
                           .norms = config_.head_norms,
                           .norm_epsilon = form_.norm_epsilon,
                           .norm_plus_one = form_.norm == "rms_plus_one",
                           .rotary_base = is_rotary ? config_.rope_base : 0,
                           .rotary_features = turned - turned % 2,
                           .rotary_scaling = form_.rotary_scaling,
                           .window = form_.window,
                           .out_deviation = out_deviation_},
                          "attn");
  }

  ValueId feed(ValueId x) {
    const auto scope = builder_.scope("ffn");
    const bool bias = form_.ffn_bias;
    ValueId hidden;
    if (form_.gated) {
      const ValueId gate = activation(linear(context_, x, config_.ffn, "gate", 0.02, bias));
      const ValueId up = linear(context_, x, config_.ffn, "up", 0.02, bias);
      hidden = builder_.mul(gate, up, "hidden");
    } else {
      hidden = activation(linear(context_, x, config_.ffn, "up", 0.02, bias));
    }
    return linear(context_, hidden, config_.width, "down", out_deviation_, bias);
  }

  ValueId block(ValueId x) {
    if (form_.norm_place == "after") {
      x = norm(add_branch(context_, x, attend(x), config_.dropout, 1), "norm1");
      return norm(add_branch(context_, x, feed(x), config_.dropout, 2), "norm2");
    }
    const ValueId mixed = attend(norm(x, "norm1"));
    const ValueId next = add_branch(context_, x, mixed, config_.dropout, 1);
    const ValueId read = form_.norm_place == "parallel" ? x : next;
    return add_branch(context_, next, feed(norm(read, "norm2")), config_.dropout, 2);
  }

  ValueId transformed(ValueId x) {
    const auto scope = builder_.scope("transform");
    return norm(activation(linear(context_, x, config_.width, "dense")), "norm");
  }

  ValueId head(ValueId x, ValueId table) {
    if (!config_.tied)
      return linear(context_, x, config_.vocabulary, "head", 0.02, form_.head_bias);
    const ValueId logits = tied_head(context_, x, table);
    if (!form_.head_bias) return logits;
    const auto scope = builder_.scope("head");
    const ValueId bias =
        builder_.variable("bias", {DType::kF32, {config_.vocabulary}}, Initializer::constant(0));
    return builder_.add(
        logits, builder_.broadcast_leading(bias, builder_.shape(logits), "bias_rows"), "biased");
  }

  LayerContext& context_;
  Builder& builder_;
  const ModelConfig& config_;
  const TransformerForm& form_;
  bool causal_;
  double out_deviation_;
};

ValueId decoder_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  return Transformer(context, config, true).logits(tokens);
}

ValueId encoder_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  return Transformer(context, config, false).logits(tokens);
}

ModelConfig as_gpt(ModelConfig config) {
  config.qkv_bias = true;
  config.ffn = 4 * config.width;
  config.form = {.norm = "layer",
                 .activation = "gelu_tanh",
                 .gated = false,
                 .positions = "learned",
                 .out_bias = true,
                 .ffn_bias = true};
  return config;
}

ValueId gpt_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  return decoder_logits(context, tokens, as_gpt(config));
}

ValueId bert_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  ModelConfig bert = as_gpt(config);
  bert.form.head_bias = true;
  return encoder_logits(context, tokens, bert);
}

/// A form that has everything by default is LLaMA's.
ValueId llama_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  ModelConfig llama = config;
  llama.form = {};
  return decoder_logits(context, tokens, llama);
}

void check_kv_heads(const ModelConfig& config, const std::string& file) {
  if (config.head == 0) check_heads(config, file);
  const ModelConfig whole = with_defaults(config);
  if (config.heads % whole.kv_heads == 0) return;
  throw UserError(file + ": model.kv_heads = " + std::to_string(config.kv_heads) +
                      " does not divide model.heads = " + std::to_string(config.heads),
                  "as many heads of queries share each head of keys and values, heads / kv_heads",
                  "set model.kv_heads to one of " + divisors(config.heads), ExitCode::kBadConfig);
}

void check_llama(const ModelConfig& config, const std::string& file) {
  check_kv_heads(config, file);
  if (config.head % 2 != 0)
    throw UserError(file + ": model.head = " + std::to_string(config.head),
                    "rotary positions turn channels in pairs, so it must be even",
                    "set model.head to an even number, or to 0 for width / heads",
                    ExitCode::kBadConfig);
  if (config.head == 0 && config.width / config.heads % 2 != 0)
    throw UserError(file + ": the heads of model.width = " + std::to_string(config.width) +
                        " and model.heads = " + std::to_string(config.heads) + " have " +
                        std::to_string(config.width / config.heads) + " channels",
                    "rotary positions turn channels in pairs, so width / heads must be even",
                    "set model.width to a multiple of " + std::to_string(2 * config.heads),
                    ExitCode::kBadConfig);
}

void check_scaling(const RotaryScaling& scaling, const std::string& file) {
  if (scaling.kind != "llama3" || scaling.low < scaling.high) return;
  throw UserError(file + ": model.rotary_low = " + double_text(scaling.low) +
                      " is not below model.rotary_high = " + double_text(scaling.high),
                  "channels with turns between them are stretched by parts",
                  "set model.rotary_high above model.rotary_low", ExitCode::kBadConfig);
}

/// A pair of features is the least that turns.
void check_share(const ModelConfig& config, const std::string& file) {
  const auto head = static_cast<double>(with_defaults(config).head);
  if (config.form.rotary_share * head >= 2) return;
  throw UserError(file + ": model.rotary_share = " + double_text(config.form.rotary_share) +
                      " of " + double_text(head) + " features is less than two",
                  "rotary positions turn channels in pairs",
                  "set model.rotary_share to at least " + double_text(2 / head),
                  ExitCode::kBadConfig);
}

/// Rotary positions need features to turn, learned ones a row for each token.
void check_positions(const ModelConfig& config, const std::string& file) {
  const TransformerForm& form = config.form;
  check_scaling(form.rotary_scaling, file);
  if (form.positions == "rotary") {
    check_llama(config, file);
    return check_share(config, file);
  }
  check_kv_heads(config, file);
  const int64_t last = form.first_position + config.context;
  if (form.position_rows == 0 || form.position_rows >= last) return;
  throw UserError(
      file + ": model.context = " + std::to_string(config.context) + " needs " +
          std::to_string(last) +
          " rows of positions, and model.position_rows = " + std::to_string(form.position_rows),
      "each token of the context has a row of the table",
      "set model.context to at most " + std::to_string(form.position_rows - form.first_position),
      ExitCode::kBadConfig);
}

constexpr std::string_view kLlamaKeys[] = {"heads", "head",      "tied",     "kv_heads",
                                           "ffn",   "rope_base", "qkv_bias", "head_norms"};
constexpr std::string_view kFormKeys[] = {
    "norm",          "norm_epsilon",  "norm_place",      "activation",     "gated",
    "positions",     "position_rows", "first_position",  "rotary_share",   "rotary_scaling",
    "rotary_factor", "rotary_low",    "rotary_high",     "rotary_context", "out_bias",
    "ffn_bias",      "head_bias",     "scaled_embedding"};
/// A window is of earlier positions, which an encoder does not know.
constexpr std::string_view kDecoderKeys[] = {"window"};
constexpr std::string_view kEncoderKeys[] = {"token_types", "embedding_norm", "head_transform"};

std::vector<std::string_view> keys(std::initializer_list<std::span<const std::string_view>> lists) {
  std::vector<std::string_view> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

ModelFamily gpt_family() {
  return {.name = "gpt",
          .keys = {"heads", "tied"},
          .check = check_heads,
          .logits = gpt_logits,
          .labels = all_labels,
          .next_token = next_of_causal,
          .can_decode = true};
}

ModelFamily bert_family() {
  return {.name = "bert",
          .objective = Objective::kMaskedToken,
          .keys = {"heads"},
          .check = check_heads,
          .logits = bert_logits,
          .labels = all_labels};
}

ModelFamily llama_family() {
  return {.name = "llama",
          .keys = keys({kLlamaKeys}),
          .check = check_llama,
          .logits = llama_logits,
          .labels = all_labels,
          .next_token = next_of_causal,
          .can_decode = true};
}

ModelFamily decoder_family() {
  return {.name = "decoder",
          .keys = keys({kLlamaKeys, kFormKeys, kDecoderKeys}),
          .check = check_positions,
          .logits = decoder_logits,
          .labels = all_labels,
          .next_token = next_of_causal,
          .can_decode = true};
}

ModelFamily encoder_family() {
  return {.name = "encoder",
          .objective = Objective::kMaskedToken,
          .keys = keys({kLlamaKeys, kFormKeys, kEncoderKeys}),
          .check = check_positions,
          .logits = encoder_logits,
          .labels = all_labels};
}

}  // namespace tessera
