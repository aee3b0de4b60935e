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
                                              "attn_pdrop",
                                              "auto_map",
                                              "bos_token_id",
                                              "dtype",
                                              "embd_pdrop",
                                              "eos_token_id",
                                              "initializer_range",
                                              "layer_norm_epsilon",
                                              "model_type",
                                              "pad_token_id",
                                              "pretraining_tp",
                                              "resid_pdrop",
                                              "rms_norm_eps",
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

/// Of transformers 4, rope_theta and rope_scaling; of 5, rope_parameters with both.
double rope_base(Reader& reader, std::vector<std::string>& notes) {
  const auto note = [&](const std::string& key) {
    notes.push_back(key +
                    " is not computed: the angles of positions are others, the sizes are not");
  };
  if (reader.find("rope_scaling")) note("rope_scaling");
  const double base = reader.number("rope_theta", 10000);
  const Document* parameters = reader.find("rope_parameters");
  if (!parameters || !parameters->is_table()) return base;
  const Document* type = parameters->find("rope_type");
  if (type && !(*type == Document("default"))) note("rope_parameters");
  Reader inside(*parameters, reader.origin());
  return inside.number("rope_theta", base);
}

Document llama(Reader& reader, std::vector<std::string>& notes) {
  Document model;
  model["kind"] = "llama";
  const int64_t width = reader.size("hidden_size"), heads = reader.size("num_attention_heads");
  model["width"] = width;
  model["heads"] = heads;
  model["kv_heads"] = reader.size("num_key_value_heads", heads);
  model["ffn"] = reader.size("intermediate_size");
  model["layers"] = reader.size("num_hidden_layers");
  const int64_t longest = reader.size("max_position_embeddings", 2048);
  const int64_t context = std::min(longest, kLongestContext);
  model["context"] = context;
  model["rope_base"] = rope_base(reader, notes);
  if (reader.find("head_dim")) model["head"] = reader.size("head_dim");
  model["tied"] = reader.flag("tie_word_embeddings", false);
  const std::string activation = reader.text("hidden_act", "silu");
  reader.expect(activation == "silu" || activation == "swish", "hidden_act",
                "the gate of a model of kind llama is a SiLU");
  reader.expect(!reader.flag("attention_bias", false), "attention_bias",
                "the products of a model of kind llama have no biases");
  reader.expect(!reader.flag("mlp_bias", false), "mlp_bias",
                "the products of a model of kind llama have no biases");
  if (reader.flag("use_sliding_window", true) && reader.find("sliding_window"))
    reader.expect(reader.size("sliding_window") >= context, "sliding_window",
                  fmt::format("attention here reads all of the {} tokens of the context", context));
  return model;
}

/// Always with biases of queries, keys and values.
Document qwen2(Reader& reader, std::vector<std::string>& notes) {
  Document model = llama(reader, notes);
  model["qkv_bias"] = true;
  reader.find("max_window_layers");
  reader.find("layer_types");
  return model;
}

/// Heads are normed, and have 128 features where the file does not say otherwise.
Document qwen3(Reader& reader, std::vector<std::string>& notes) {
  Document model = llama(reader, notes);
  if (!model.find("head")) model["head"] = int64_t{128};
  model["head_norms"] = true;
  reader.find("max_window_layers");
  reader.find("layer_types");
  return model;
}

Document gpt2(Reader& reader, std::vector<std::string>&) {
  Document model;
  model["kind"] = "gpt";
  const int64_t width = reader.size("n_embd");
  model["width"] = width;
  model["heads"] = reader.size("n_head");
  model["layers"] = reader.size("n_layer");
  model["context"] = reader.size("n_positions", reader.size("n_ctx", 1024));
  model["tied"] = reader.flag("tie_word_embeddings", true);
  reader.expect(reader.size("n_inner", 4 * width) == 4 * width, "n_inner",
                "blocks of a model of kind gpt have four times its width inside");
  const std::string activation = reader.text("activation_function", "gelu_new");
  reader.expect(activation == "gelu_new" || activation == "gelu", "activation_function",
                "blocks of a model of kind gpt have a GELU");
  reader.expect(!reader.flag("scale_attn_by_inverse_layer_idx", false),
                "scale_attn_by_inverse_layer_idx", "attention here has one scale in all layers");
  reader.flag("reorder_and_upcast_attn", false);
  reader.flag("scale_attn_weights", true);
  return model;
}

/// The types of models, each with what reads it.
struct Kind {
  std::string_view type;
  Document (*read)(Reader& reader, std::vector<std::string>& notes);
};
constexpr Kind kKinds[] = {
    {"gpt2", gpt2}, {"llama", llama}, {"mistral", llama}, {"qwen2", qwen2}, {"qwen3", qwen3}};

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
  Document model = kind->read(reader, result.notes);
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
