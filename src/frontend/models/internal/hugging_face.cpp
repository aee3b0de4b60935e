#include "frontend/models/internal/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr int64_t kLongestContext = 4096;      // that is assumed
constexpr int64_t kTokensOfBatch = 1LL << 22;  // the same
constexpr int64_t kLargest = 1LL << 24;

/// Keys that say nothing about the arithmetic of a training step.
constexpr std::string_view kOfNoInterest[] = {"architectures",
                                              "attention_dropout",
                                              "attention_probs_dropout_prob",
                                              "chunk_size_feed_forward",
                                              "classifier_dropout",
                                              "dropout",
                                              "gradient_checkpointing",
                                              "hidden_dropout",
                                              "hidden_dropout_prob",
                                              "id2label",
                                              "init_std",
                                              "is_decoder",
                                              "is_encoder_decoder",
                                              "label2id",
                                              "layerdrop",
                                              "output_attentions",
                                              "output_hidden_states",
                                              "problem_type",
                                              "return_dict",
                                              "attn_pdrop",
                                              "auto_map",
                                              "bos_token_id",
                                              "dtype",
                                              "embd_pdrop",
                                              "eos_token_id",
                                              "initializer_range",
                                              "model_type",
                                              "pad_token_id",
                                              "pretraining_tp",
                                              "resid_pdrop",
                                              "summary_activation",
                                              "summary_first_dropout",
                                              "summary_proj_to_labels",
                                              "summary_type",
                                              "summary_use_proj",
                                              "task_specific_params",
                                              "torch_dtype",
                                              "transformers_version",
                                              "use_cache"};

class Reader {
 public:
  Reader(const Document& config, const std::string& origin) : config_(config), origin_(origin) {}

  /// nullptr: there is none, or it is null.
  const Document* find(const std::string& key) {
    read_.insert(key);
    const Document* value = config_.find(key);
    return value && !value->is_null() ? value : nullptr;
  }

  int64_t size(const std::string& key, std::optional<int64_t> fallback = {}) {
    const Document* value = find(key);
    if (!value && fallback) return *fallback;
    if (!value)
      refuse("has no " + key, "the sizes of a model of this type are not known without it",
             "use the config.json of the model");
    if (!value->is_int() || value->as_int() < 1 || value->as_int() > kLargest)
      refuse(key + " is " + text_of(*value),
             fmt::format("it is a whole number from 1 to {}", kLargest), "correct it");
    return value->as_int();
  }

  double number(const std::string& key, double fallback) {
    const Document* value = find(key);
    if (!value) return fallback;
    const double number = value->is_number() ? value->as_double() : 0;
    if (!(number >= 1 && number <= 1e9))
      refuse(key + " is " + text_of(*value), "it is a number from 1 to 1e9", "correct it");
    return number;
  }

  /// A number from 0 to `largest`.
  double share(const std::string& key, double fallback, double largest = 1) {
    const Document* value = find(key);
    if (!value) return fallback;
    const double number = value->is_number() ? value->as_double() : -1;
    if (!(number >= 0 && number <= largest))
      refuse(key + " is " + text_of(*value), fmt::format("it is a number from 0 to {}", largest),
             "correct it");
    return number;
  }

  bool flag(const std::string& key, bool fallback) {
    const Document* value = find(key);
    if (!value) return fallback;
    if (!value->is_bool())
      refuse(key + " is " + text_of(*value), "it is true or false", "correct it");
    return value->as_bool();
  }

  std::string text(const std::string& key, const std::string& fallback) {
    const Document* value = find(key);
    if (!value) return fallback;
    if (!value->is_string()) refuse(key + " is " + text_of(*value), "it is a text", "correct it");
    return value->as_string();
  }

  /// Refuses arithmetic that no model here has.
  void expect(bool is_so, const std::string& key, const std::string& why) {
    if (is_so) return;
    const Document* value = config_.find(key);
    refuse(key + " is " + (value ? text_of(*value) : "not given"), why,
           "write a network of your own (docs/models.md), or take a model without it");
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError(origin_ + ": " + what, why, fix, ExitCode::kBadData);
  }

  const std::string& origin() const { return origin_; }

  /// Keys that may matter and were not read.
  std::vector<std::string> unread() const {
    std::vector<std::string> names;
    for (const auto& [key, value] : config_.as_table())
      if (!read_.contains(key) && !key.starts_with("_") &&
          std::ranges::find(kOfNoInterest, key) == std::end(kOfNoInterest))
        names.push_back(key);
    return names;
  }

 private:
  static std::string text_of(const Document& value) {
    std::string text = to_json(value);
    if (text.size() > 40) text = text.substr(0, 40) + "...";
    return text;
  }

  const Document& config_;
  const std::string& origin_;
  std::set<std::string> read_;
};

/// Settings of a model under construction.
class Model {
 public:
  explicit Model(Reader& file) : reader(file) {}

  void set(const char* key, Document value) { settings[key] = std::move(value); }
  /// The sizes that all kinds have, by the names that this kind gives them.
  void sizes(const char* width_key, const char* heads_key, const char* layers_key) {
    width = reader.size(width_key);
    heads = reader.size(heads_key);
    set("width", width);
    set("heads", heads);
    set("layers", reader.size(layers_key));
  }
  void context(int64_t longest) {
    context_ = std::min(longest, kLongestContext);
    set("context", context_);
  }
  void activation(const char* key, const std::string& fallback);
  void rotary(int64_t longest, double share);
  void window();
  void refuse_others(const char* key, bool is_wanted, const std::string& why) {
    reader.expect(reader.flag(key, is_wanted) == is_wanted, key, why);
  }

  Reader& reader;
  Document settings = Document::Table{};
  std::vector<std::string> notes = {};
  int64_t width = 0, heads = 0;

 private:
  void scaling(Reader& rope, const std::string& type, int64_t longest);
  int64_t context_ = 0;
};

void Model::activation(const char* key, const std::string& fallback) {
  constexpr std::pair<std::string_view, const char*> kNames[] = {{"silu", "silu"},
                                                                 {"swish", "silu"},
                                                                 {"gelu", "gelu"},
                                                                 {"gelu_new", "gelu_tanh"},
                                                                 {"gelu_fast", "gelu_tanh"},
                                                                 {"gelu_pytorch_tanh", "gelu_tanh"},
                                                                 {"quick_gelu", "gelu_quick"},
                                                                 {"relu", "relu"}};
  const std::string given = reader.text(key, fallback);
  const auto name = std::ranges::find(kNames, given, [](const auto& pair) { return pair.first; });
  reader.expect(name != std::end(kNames), key,
                "activations are silu, gelu and its approximations, quick_gelu and relu");
  set("activation", name->second);
}

/// Of transformers 4, rope_theta and rope_scaling; of 5, rope_parameters with both.
void Model::rotary(int64_t longest, double share) {
  double base = reader.number("rope_theta", reader.number("rotary_emb_base", 10000));
  share = reader.share("partial_rotary_factor", reader.share("rotary_pct", share));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Document* table = reader.find(key);
    if (!table || !table->is_table()) continue;
    Reader rope(*table, reader.origin());
    const std::string type = rope.text("rope_type", rope.text("type", "default"));
    base = rope.number("rope_theta", base);
    share = rope.share("partial_rotary_factor", share);
    scaling(rope, type, longest);
  }
  set("rope_base", base);
  if (share != 1) set("rotary_share", share);
}

void Model::scaling(Reader& rope, const std::string& type, int64_t longest) {
  if (type == "linear" || type == "llama3") {
    set("rotary_scaling", type);
    set("rotary_factor", rope.number("factor", 1));
    if (type == "linear") return;
    set("rotary_low", rope.share("low_freq_factor", 1, 1e6));
    set("rotary_high", rope.share("high_freq_factor", 4, 1e6));
    set("rotary_context", rope.size("original_max_position_embeddings", longest));
    return;
  }
  // Angles of contexts up to the original one are not changed.
  if (type == "default" || (type == "dynamic" && context_ <= longest)) return;
  notes.push_back(
      fmt::format("rotary positions of type '{}' are computed without their scaling: "
                  "the angles are others, the sizes are not",
                  type));
}

void Model::window() {
  const bool is_used = reader.flag("use_sliding_window", true);
  reader.find("max_window_layers");
  reader.find("layer_types");
  if (is_used && reader.find("sliding_window")) set("window", reader.size("sliding_window"));
}

/// LLaMA, Mistral, and what the others add to it.
Model llama_like(Reader& reader, const std::string& activation = "silu") {
  Model model(reader);
  model.set("kind", "decoder");
  model.sizes("hidden_size", "num_attention_heads", "num_hidden_layers");
  model.set("kv_heads", reader.size("num_key_value_heads", model.heads));
  model.set("ffn", reader.size("intermediate_size"));
  const int64_t longest = reader.size("max_position_embeddings", 2048);
  model.context(longest);
  model.rotary(longest, 1);
  if (reader.find("head_dim")) model.set("head", reader.size("head_dim"));
  model.set("norm_epsilon", reader.share("rms_norm_eps", 1e-6));
  model.set("tied", reader.flag("tie_word_embeddings", false));
  model.activation("hidden_act", activation);
  if (reader.flag("attention_bias", false)) {
    model.set("qkv_bias", true);
    model.set("out_bias", true);
  }
  if (reader.flag("mlp_bias", false)) model.set("ffn_bias", true);
  return model;
}

Model llama(Reader& reader) {
  return llama_like(reader);
}

Model mistral(Reader& reader) {
  Model model = llama_like(reader);
  model.window();
  return model;
}

/// Always with biases of queries, keys and values. Its windows are of some layers, and only where
/// use_sliding_window says so.
void qwen_window(Model& model) {
  const bool has_window =
      model.reader.flag("use_sliding_window", false) && model.reader.find("sliding_window");
  model.reader.expect(!has_window, "use_sliding_window",
                      "layers with and without a window are not read");
  model.reader.find("sliding_window");
  model.reader.find("max_window_layers");
  model.reader.find("layer_types");
}

Model qwen2(Reader& reader) {
  Model model = llama_like(reader);
  model.set("qkv_bias", true);
  qwen_window(model);
  return model;
}

/// Heads are normed, and have 128 features where the file does not say otherwise.
Model qwen3(Reader& reader) {
  Model model = llama_like(reader);
  if (!model.settings.find("head")) model.set("head", 128);
  model.set("head_norms", true);
  qwen_window(model);
  return model;
}

/// The activation is always the approximation: files that say gelu mean it.
Model gemma(Reader& reader) {
  Model model = llama_like(reader, "gelu_pytorch_tanh");
  if (!model.settings.find("head")) model.set("head", 256);
  if (!reader.find("tie_word_embeddings")) model.set("tied", true);
  if (model.settings.find("activation")->as_string() == "gelu")
    model.set("activation", "gelu_tanh");
  reader.text("hidden_activation", "");
  model.refuse_others("use_bidirectional_attention", false, "a decoder reads earlier tokens");
  model.set("norm", "rms_plus_one");
  model.set("scaled_embedding", true);
  return model;
}

Model phi3(Reader& reader) {
  Model model = llama_like(reader);
  model.window();
  reader.find("original_max_position_embeddings");
  return model;
}

/// A transformer with layer norms, biases and a feed-forward without a gate.
Model with_layer_norms(Reader& reader, const char* kind) {
  Model model(reader);
  model.set("kind", kind);
  model.set("norm", "layer");
  model.set("gated", false);
  for (const char* bias : {"qkv_bias", "out_bias", "ffn_bias"}) model.set(bias, true);
  return model;
}

Model gpt_neox(Reader& reader) {
  Model model = with_layer_norms(reader, "decoder");
  model.sizes("hidden_size", "num_attention_heads", "num_hidden_layers");
  model.set("ffn", reader.size("intermediate_size"));
  const int64_t longest = reader.size("max_position_embeddings", 2048);
  model.context(longest);
  model.rotary(longest, 0.25);
  model.set("norm_epsilon", reader.share("layer_norm_eps", 1e-5));
  model.set("norm_place", reader.flag("use_parallel_residual", true) ? "parallel" : "before");
  model.set("tied", reader.flag("tie_word_embeddings", false));
  model.activation("hidden_act", "gelu");
  const bool has_bias = reader.flag("attention_bias", true);
  model.set("qkv_bias", has_bias);
  model.set("out_bias", has_bias);
  return model;
}

/// Sets a table of learned positions.
void learn_positions(Model& model, int64_t rows, int64_t first = 0) {
  model.set("positions", "learned");
  model.context(rows - first);
  model.set("position_rows", rows);
  if (first > 0) model.set("first_position", first);
}

Model gpt2(Reader& reader) {
  Model model = with_layer_norms(reader, "decoder");
  model.sizes("n_embd", "n_head", "n_layer");
  model.set("ffn", reader.size("n_inner", 4 * model.width));
  learn_positions(model, reader.size("n_positions", reader.size("n_ctx", 1024)));
  model.set("norm_epsilon", reader.share("layer_norm_epsilon", 1e-5));
  model.set("tied", reader.flag("tie_word_embeddings", true));
  model.activation("activation_function", "gelu_new");
  model.refuse_others("scale_attn_by_inverse_layer_idx", false,
                      "attention has one scale in all layers");
  model.refuse_others("scale_attn_weights", true, "attention has the scale 1 / sqrt(head)");
  model.refuse_others("add_cross_attention", false, "a decoder reads one sequence");
  reader.flag("reorder_and_upcast_attn", false);
  return model;
}

/// Its positions begin at the third row of their table.
Model opt(Reader& reader) {
  constexpr int64_t kFirstPosition = 2;
  Model model = with_layer_norms(reader, "decoder");
  model.sizes("hidden_size", "num_attention_heads", "num_hidden_layers");
  model.set("ffn", reader.size("ffn_dim", 4 * model.width));
  learn_positions(model, reader.size("max_position_embeddings", 2048) + kFirstPosition,
                  kFirstPosition);
  model.set("tied", reader.flag("tie_word_embeddings", true));
  model.activation("activation_function", "relu");
  reader.expect(reader.size("word_embed_proj_dim", model.width) == model.width,
                "word_embed_proj_dim", "embeddings have the width of the blocks");
  model.refuse_others("do_layer_norm_before", true, "norms are before the branches");
  model.refuse_others("layer_norm_elementwise_affine", true, "norms have weights");
  model.refuse_others("_remove_final_layer_norm", false, "the last norm is there");
  const bool has_bias = reader.flag("enable_bias", true);
  for (const char* bias : {"qkv_bias", "out_bias", "ffn_bias"}) model.set(bias, has_bias);
  return model;
}

Model bert(Reader& reader) {
  Model model = with_layer_norms(reader, "encoder");
  model.sizes("hidden_size", "num_attention_heads", "num_hidden_layers");
  model.set("ffn", reader.size("intermediate_size"));
  learn_positions(model, reader.size("max_position_embeddings", 512));
  model.set("norm_epsilon", reader.share("layer_norm_eps", 1e-12));
  model.set("norm_place", "after");
  model.set("token_types", reader.size("type_vocab_size", 2));
  model.set("tied", reader.flag("tie_word_embeddings", true));
  model.activation("hidden_act", "gelu");
  for (const char* key : {"embedding_norm", "head_transform", "head_bias"}) model.set(key, true);
  const std::string type = reader.text("position_embedding_type", "absolute");
  reader.expect(type == "absolute", "position_embedding_type", "positions are absolute");
  model.refuse_others("is_decoder", false, "an encoder reads both sides");
  model.refuse_others("add_cross_attention", false, "an encoder reads one sequence");
  return model;
}

/// The types of models, each with what reads it.
struct Kind {
  std::string_view type;
  Model (*read)(Reader& reader);
};
constexpr Kind kKinds[] = {
    {"gpt2", gpt2},   {"llama", llama}, {"mistral", mistral},   {"qwen2", qwen2}, {"qwen3", qwen3},
    {"gemma", gemma}, {"phi3", phi3},   {"gpt_neox", gpt_neox}, {"opt", opt},     {"bert", bert}};

}  // namespace

bool is_hugging_face(const Document& config) {
  return config.is_table() && config.find("model_type");
}

ReadModel read_hugging_face(const Document& config, const std::string& origin) {
  Reader reader(config, origin);
  const std::string type = reader.text("model_type", "");
  const auto kind = std::ranges::find(kKinds, type, &Kind::type);
  if (kind == std::end(kKinds)) {
    std::vector<std::string> types;
    for (const Kind& each : kKinds) types.emplace_back(each.type);
    reader.refuse("model_type is '" + type + "'",
                  "the types that are read are " + join(types, ", "),
                  "describe the model in a configuration, docs/configuration.md");
  }
  ReadModel result;
  Model read = kind->read(reader);
  result.notes = std::move(read.notes);
  Document model = std::move(read.settings);
  model["vocabulary"] = reader.size("vocab_size");
  model["dropout"] = 0.0;
  const int64_t context = model.find("context")->as_int();
  Document& train = result.settings["train"];
  train["batch"] = std::max<int64_t>(1, kTokensOfBatch / context);
  train["precision"] =
      reader.text("torch_dtype", reader.text("dtype", "")) == "float16" ? "f16" : "bf16";
  Document& optimizer = result.settings["optimizer"];
  optimizer["kind"] = "adamw";
  optimizer["clip_norm"] = 1.0;
  result.settings["model"] = std::move(model);
  if (const std::vector<std::string> keys = reader.unread(); !keys.empty())
    result.notes.push_back("keys that are not read: " + join(keys, ", "));
  return result;
}

}  // namespace tessera
