// The [model] table of a configuration: one line per key.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/setting_keys.h"
#include "base/text/text.h"
#include "ir/models/graph_file.h"
#include "ir/models/internal/families.h"
#include "ir/models/model.h"

namespace tessera {
namespace {

using ModelKey = SettingKey<ModelConfig>;

constexpr std::string_view kGraphKind = "graph";
constexpr double kMaxExtent = 1 << 20;
constexpr double kMaxVocabulary = 1 << 24;

template <typename T>
auto form(T TransformerForm::* member) {
  return [member](ModelConfig& config) -> T& { return config.form.*member; };
}
template <typename T>
auto scaling(T RotaryScaling::* member) {
  return [member](ModelConfig& config) -> T& { return config.form.rotary_scaling.*member; };
}

const ModelKey kContextKey = {
    {"context", "Tokens of a sample", "128"}, &ModelConfig::context, 1, kMaxExtent};
const ModelKey kLayerKeys[] = {
    {{"layers", "Layers, or blocks", "12"}, &ModelConfig::layers, 1, 1000},
    {{"width", "Features of a layer", "768"}, &ModelConfig::width, 1, kMaxExtent}};
const ModelKey kDropoutKey = {{"dropout", "Share of elements that dropout sets to zero", "0.2"},
                              &ModelConfig::dropout,
                              0,
                              0.99};

const ModelKey kFamilyKeys[] = {
    {{"heads", "Heads of attention; they divide the width", "8"},
     &ModelConfig::heads,
     1,
     kMaxExtent},
    {{"embedding", "Features of the embedding of a token", "64"},
     &ModelConfig::embedding,
     1,
     kMaxExtent},
    {{"tied", "Is the matrix of the logits that of the embedding?", "true"}, &ModelConfig::tied},
    {{"kv_heads", "Heads of keys and values; 0: as many as heads", "4"},
     &ModelConfig::kv_heads,
     0,
     kMaxExtent},
    {{"ffn", "Features between the two products of a block; 0: 8/3 of the width", "2048"},
     &ModelConfig::ffn,
     0,
     kMaxExtent},
    {{"head", "Features of a head of attention; 0: the width over the heads", "128"},
     &ModelConfig::head,
     0,
     kMaxExtent},
    {{"qkv_bias", "Have queries, keys and values biases, as in Qwen 2?", "true"},
     &ModelConfig::qkv_bias},
    {{"head_norms", "Are queries and keys of each head normed, as in Qwen 3?", "true"},
     &ModelConfig::head_norms},
    {{"depth", "Layers of the variant: 18, 20, 34, 50 or 56", "56"}, &ModelConfig::depth, 1, 1000},
    {{"rope_base", "Base of the angles of rotary positions", "500000.0"},
     &ModelConfig::rope_base,
     1,
     1e9},
    {{"norm", "Norm of the blocks", "\"layer\""},
     form(&TransformerForm::norm),
     0,
     0,
     {"rms", "rms_plus_one", "layer"}},
    {{"norm_epsilon", "What norms add to a variance", "1e-6"},
     form(&TransformerForm::norm_epsilon),
     0,
     1},
    {{"norm_place", "Where the norms of a block are", "\"after\""},
     form(&TransformerForm::norm_place),
     0,
     0,
     {"before", "after", "parallel"}},
    {{"activation", "Activation of the feed-forward", "\"relu\""},
     form(&TransformerForm::activation),
     0,
     0,
     {"silu", "gelu", "gelu_tanh", "gelu_quick", "relu"}},
    {{"gated", "Is the activation multiplied by a second product, as in SwiGLU?", "false"},
     form(&TransformerForm::gated)},
    {{"positions", "Positions of tokens", "\"learned\""},
     form(&TransformerForm::positions),
     0,
     0,
     {"rotary", "learned"}},
    {{"position_rows", "Rows of learned positions; 0: those of the context", "2050"},
     form(&TransformerForm::position_rows),
     0,
     kMaxExtent},
    {{"first_position", "Row of learned positions of the first token", "2"},
     form(&TransformerForm::first_position),
     0,
     kMaxExtent},
    {{"rotary_share", "Share of the features of a head that rotary positions turn", "0.25"},
     form(&TransformerForm::rotary_share),
     0,
     1},
    {{"rotary_scaling", "How rotary positions are stretched to longer contexts", "\"llama3\""},
     scaling(&RotaryScaling::kind),
     0,
     0,
     {"none", "linear", "llama3"}},
    {{"rotary_factor", "By how much rotary positions are stretched", "8.0"},
     scaling(&RotaryScaling::factor),
     1,
     1e6},
    {{"rotary_low", "llama3: channels with fewer turns are stretched in full", "2.0"},
     scaling(&RotaryScaling::low),
     1e-3,
     1e6},
    {{"rotary_high", "llama3: channels with more turns are not stretched", "8.0"},
     scaling(&RotaryScaling::high),
     1e-3,
     1e6},
    {{"rotary_context", "llama3: positions in which turns are counted", "4096"},
     scaling(&RotaryScaling::context),
     1,
     kMaxExtent},
    {{"out_bias", "With qkv_bias: has the last product of attention a bias, too?", "true"},
     form(&TransformerForm::out_bias)},
    {{"ffn_bias", "Has the feed-forward biases?", "true"}, form(&TransformerForm::ffn_bias)},
    {{"head_bias", "Have the logits a bias?", "true"}, form(&TransformerForm::head_bias)},
    {{"scaled_embedding", "Are embeddings multiplied by the square root of the width?", "true"},
     form(&TransformerForm::scaled_embedding)},
    {{"window", "Positions that each position reads; 0: all earlier ones", "4096"},
     form(&TransformerForm::window),
     0,
     kMaxExtent},
    {{"token_types", "Rows of a table whose first one is added to embeddings; 0: none", "2"},
     form(&TransformerForm::token_types),
     0,
     kMaxExtent},
    {{"embedding_norm", "Are embeddings normed?", "true"}, form(&TransformerForm::embedding_norm)},
    {{"head_transform", "Are a product, an activation and a norm before the logits?", "true"},
     form(&TransformerForm::head_transform)},
};

bool reads(const ModelFamily& family, std::string_view key) {
  return std::find(family.keys.begin(), family.keys.end(), key) != family.keys.end();
}

std::vector<ModelKey> keys_of(const ModelFamily& family) {
  std::vector<ModelKey> keys;
  if (!is_of_images(family.objective)) keys.push_back(kContextKey);
  if (family.has_layers) keys.insert(keys.end(), std::begin(kLayerKeys), std::end(kLayerKeys));
  if (family.has_layers && family.has_dropout) keys.push_back(kDropoutKey);
  const size_t common = keys.size();
  for (const ModelKey& key : kFamilyKeys)
    if (reads(family, key.key.name)) keys.push_back(key);
  ensure(keys.size() == common + family.keys.size(), "every key of a family is known");
  return keys;
}

Lora read_lora(ConfigTable& table) {
  Lora lora;
  lora.rank = table.integer({"lora_rank",
                             "Rank of the [adapters](training.md#lora), which are trained in place "
                             "of the parameters; 0: none",
                             "8"},
                            lora.rank, 0, static_cast<int64_t>(kMaxExtent));
  lora.alpha = table.number(
      {"lora_alpha", "The result of an adapter is multiplied by this, over its rank", "32.0"},
      lora.alpha, 1e-6, 1e6);
  lora.targets = table.texts({"lora_targets", "Weights of linear layers that get adapters",
                              "[\"*.ffn.{up,down}.weight\"]"},
                             lora.targets);
  return lora;
}

void write_lora(const Lora& lora, Document& settings) {
  if (lora.rank == 0) return;
  settings["lora_rank"] = lora.rank;
  settings["lora_alpha"] = lora.alpha;
  settings["lora_targets"] = Document::List(lora.targets.begin(), lora.targets.end());
}

/// Refuses keys that only other families read, because they are not misspelled.
void refuse_keys_of_others(const ConfigTable& table, const ModelFamily& family) {
  for (const ModelKey& key : kFamilyKeys) {
    if (reads(family, key.key.name) || !table.has(key.key.name)) continue;
    std::vector<std::string> readers;
    for (const std::string& kind : family_names())
      if (reads(family_of(kind), key.key.name)) readers.push_back(kind);
    throw UserError(table.file() + ": model." + key.key.name +
                        " is no setting of a model of kind " + std::string(family.name),
                    "it is one of " + join(readers, ", "),
                    "remove it, or choose another model.kind", ExitCode::kBadConfig);
  }
}

/// The sizes of a model follow from its graph. A context may be given again, if it is the same.
void read_graph(ConfigTable& table, ModelConfig& config) {
  const std::string file = table.text({"file", "A graph file", "\"net.graph\""}, "");
  const std::string text =
      table.text({"text", "In place of `file`, the text of one, as checkpoints have it",
                  "\"tessera graph 1\\n...\""},
                 "");
  if (file.empty() == text.empty())
    throw UserError(table.file() + ": model.kind is \"graph\", and of model.file and model.text " +
                        (file.empty() ? "neither is" : "both are") + " set",
                    "the model is that of a graph file", "set model.file = \"net.graph\"",
                    ExitCode::kBadConfig);
  config.graph = std::make_shared<const GraphModel>(
      text.empty() ? load_network(file) : parse_graph_file(text, table.full("text")));
  const GraphSizes& sizes = config.graph->sizes;
  if (sizes.context > 0)
    config.context = table.integer({"context", "That of the graph, which is fixed", "128"},
                                   sizes.context, sizes.context, sizes.context);
  if (sizes.vocabulary > 0) config.vocabulary = config.given_vocabulary = sizes.vocabulary;
  if (sizes.classes > 0) config.classes = sizes.classes;
  if (sizes.image.channels > 0) config.image = sizes.image;
}

}  // namespace

ModelConfig with_defaults(ModelConfig config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head == 0) config.head = config.width / std::max<int64_t>(config.heads, 1);
  if (config.ffn == 0) config.ffn = (config.width * 8 + 23) / 24 * 8;  // ceil(8/3 width / 8) * 8
  return config;
}

std::vector<std::string> model_kinds() {
  std::vector<std::string> kinds = family_names();
  kinds.emplace_back(kGraphKind);
  return kinds;
}

ModelConfig read_model_config(ConfigTable table) {
  ModelConfig config;
  config.kind =
      table.choice({"kind", "Family of the model", "\"gpt\""}, config.kind, model_kinds());
  if (config.kind == kGraphKind) {
    read_graph(table, config);
    config.lora = read_lora(table);
    table.finish();
    return config;
  }
  const ModelFamily family = family_of(config.kind);
  refuse_keys_of_others(table, family);
  for (const ModelKey& key : keys_of(family)) read_key(table, key, config);
  if (!is_of_images(family.objective))
    config.given_vocabulary = table.integer({"vocabulary",
                                             "Number of tokens, for `plan`, `simulate` and "
                                             "`explain` without data; 0: the data gives it",
                                             "128256"},
                                            0, 0, static_cast<int64_t>(kMaxVocabulary));
  if (config.given_vocabulary > 0) config.vocabulary = config.given_vocabulary;
  config.lora = read_lora(table);
  table.finish();
  family.check(config, table.file());
  return config;
}

Document settings_of(const ModelConfig& config) {
  const ModelConfig whole = with_defaults(config);
  Document settings;
  settings["kind"] = config.kind;
  if (config.graph) {
    settings["text"] = config.graph->text;
    write_lora(config.lora, settings);
    return settings;
  }
  if (is_of_images(objective_of(config))) {
    settings["classes"] = config.classes;
    settings["image"] =
        Document::List{config.image.channels, config.image.rows, config.image.columns};
  } else {
    settings["vocabulary"] = config.vocabulary;
  }
  for (const ModelKey& key : keys_of(family_of(config.kind))) write_key(key, whole, settings);
  write_lora(config.lora, settings);
  return settings;
}

}  // namespace tessera
