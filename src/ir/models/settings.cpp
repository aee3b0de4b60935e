// The [model] table of a configuration: one line per key.
#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/models/families.h"
#include "ir/models/model.h"

namespace tessera {
namespace {

/// A key of the table, the member that it sets, and its range.
struct ModelKey {
  const char* name;
  std::variant<int64_t ModelConfig::*, double ModelConfig::*, bool ModelConfig::*> member;
  double smallest = 0, largest = 0;
};

constexpr double kMaxExtent = 1 << 20;
constexpr double kMaxVocabulary = 1 << 24;

const ModelKey kContextKey = {"context", &ModelConfig::context, 1, kMaxExtent};
const ModelKey kLayerKeys[] = {{"layers", &ModelConfig::layers, 1, 1000},
                               {"width", &ModelConfig::width, 1, kMaxExtent}};
const ModelKey kDropoutKey = {"dropout", &ModelConfig::dropout, 0, 0.99};

const ModelKey kFamilyKeys[] = {
    {"heads", &ModelConfig::heads, 1, kMaxExtent},
    {"embedding", &ModelConfig::embedding, 1, kMaxExtent},
    {"tied", &ModelConfig::tied},
    {"kv_heads", &ModelConfig::kv_heads, 0, kMaxExtent},
    {"ffn", &ModelConfig::ffn, 0, kMaxExtent},
    {"depth", &ModelConfig::depth, 1, 1000},
    {"rope_base", &ModelConfig::rope_base, 1, 1e9},
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
    if (reads(family, key.name)) keys.push_back(key);
  ensure(keys.size() == common + family.keys.size(), "every key of a family is known");
  return keys;
}

void read(ConfigTable& table, const ModelKey& key, ModelConfig& config) {
  if (const auto* whole = std::get_if<int64_t ModelConfig::*>(&key.member))
    config.** whole = table.integer(key.name, config.**whole, static_cast<int64_t>(key.smallest),
                                    static_cast<int64_t>(key.largest));
  else if (const auto* number = std::get_if<double ModelConfig::*>(&key.member))
    config.** number = table.number(key.name, config.**number, key.smallest, key.largest);
  else if (const auto* flag = std::get_if<bool ModelConfig::*>(&key.member))
    config.** flag = table.boolean(key.name, config.**flag);
}

Lora read_lora(ConfigTable& table) {
  Lora lora;
  lora.rank = table.integer("lora_rank", lora.rank, 0, static_cast<int64_t>(kMaxExtent));
  lora.alpha = table.number("lora_alpha", lora.alpha, 1e-6, 1e6);
  lora.targets = table.texts("lora_targets", lora.targets);
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
    if (reads(family, key.name) || !table.has(key.name)) continue;
    std::vector<std::string> readers;
    for (const std::string& kind : family_names())
      if (reads(family_of(kind), key.name)) readers.push_back(kind);
    throw UserError(table.file() + ": model." + key.name + " is no setting of a model of kind " +
                        std::string(family.name),
                    "it is one of " + join(readers, ", "),
                    "remove it, or choose another model.kind", ExitCode::kBadConfig);
  }
}

}  // namespace

ModelConfig with_defaults(ModelConfig config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.ffn == 0) config.ffn = (config.width * 8 + 23) / 24 * 8;  // ceil(8/3 width / 8) * 8
  return config;
}

ModelConfig read_model_config(ConfigTable table) {
  ModelConfig config;
  config.kind = table.choice("kind", config.kind, family_names());
  const ModelFamily family = family_of(config.kind);
  refuse_keys_of_others(table, family);
  for (const ModelKey& key : keys_of(family)) read(table, key, config);
  if (!is_of_images(family.objective))
    config.given_vocabulary =
        table.integer("vocabulary", 0, 0, static_cast<int64_t>(kMaxVocabulary));
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
  if (is_of_images(objective_of(config))) {
    settings["classes"] = config.classes;
    settings["image"] =
        Document::List{config.image.channels, config.image.rows, config.image.columns};
  } else {
    settings["vocabulary"] = config.vocabulary;
  }
  for (const ModelKey& key : keys_of(family_of(config.kind)))
    settings[key.name] =
        std::visit([&](auto member) { return Document(whole.*member); }, key.member);
  write_lora(config.lora, settings);
  return settings;
}

}  // namespace tessera
