#include "training/config/internal/key_reference.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/models/model.h"

namespace tessera {
namespace {

constexpr const char* kSmallGraph =
    "tessera graph 1\n"
    "context = 64\n"
    "== training\n"
    "input tokens: i32[$rows,64]\n"
    "loss = constant() {dtype=\"f32\", shape=[], value=0.0}: f32[]\n"
    "output loss = loss\n";

/// Settings of a kind with what its reader cannot do without.
Document settings_with(const std::string& model, const std::string& data) {
  Document settings;
  settings["model"]["kind"] = model;
  if (model == "graph") settings["model"]["text"] = kSmallGraph;
  Document& table = settings["data"];
  table["kind"] = data;
  if (data == "idx") {
    table["images"] = "images.idx";
    table["labels"] = "labels.idx";
  } else if (data == "text" || data == "bin" || data == "jsonl" || data == "npy" ||
             data == "cifar") {
    table["path"] = "data";
  }
  return settings;
}

/// The keys of a table for each kind, each key once, with the kinds that read it.
std::vector<ReferenceKey> keys_by_kind(std::string_view table,
                                       const std::vector<std::string>& kinds,
                                       const std::vector<std::vector<ReadKey>>& keys) {
  std::vector<ReferenceKey> merged;
  for (size_t i = 0; i < kinds.size(); ++i)
    for (const ReadKey& key : keys[i]) {
      if (!key.name.starts_with(std::string(table) + ".")) continue;
      auto found = std::ranges::find(merged, key.name,
                                     [](const ReferenceKey& known) { return known.key.name; });
      if (found == merged.end()) found = merged.insert(merged.end(), {key, {}});
      if (found->kinds.empty() || found->kinds.back() != kinds[i]) found->kinds.push_back(kinds[i]);
    }
  for (ReferenceKey& key : merged)
    if (key.kinds.size() == kinds.size()) key.kinds.clear();
  return merged;
}

struct PageTable {
  std::string_view name, text;
};

constexpr PageTable kTables[] = {
    {"model",
     "The model: its family and its sizes. [models.md](models.md) describes the families."},
    {"data", "What is learned. [data.md](data.md) describes the kinds."},
    {"train", "The run. [training.md](training.md) describes the loop."},
    {"optimizer", "How parameters are updated. Biases and norms have no weight decay."},
    {"checkpoint", "What is stored. [checkpoints.md](checkpoints.md)."},
    {"parallel",
     "The plan of the run, when `--plan` names no other: the keys of a [preset](#presets), or "
     "those "
     "of a\n[plan file](#plan-files) as TOML."},
};

std::string code(std::string_view text) {
  if (text.empty()) return "";
  // A row of a table is one line.
  return "`" + join(split_text(text, '\n'), "`<br>`") + "`";
}

std::string range_of(const ReadKey& key) {
  return key.range.starts_with("one of ") ? code(key.range.substr(7)) : key.range;
}

/// The cells that the tables of all kinds of files have.
std::string row_of(const std::string& name, const ReadKey& key, std::string_view meaning,
                   const std::string& example) {
  return "| " + code(name) + " | " + key.type + " | " + code(key.fallback) + " | " + range_of(key) +
         " | " + std::string(meaning) + " | " + code(example) + " |";
}

std::string row_of(const ReferenceKey& reference) {
  const ReadKey& key = reference.key;
  const std::string name = key.name.substr(key.name.find('.') + 1);
  return row_of(name, key, key.meaning, name + " = " + key.example) + " " +
         (reference.kinds.empty() ? "all" : join(reference.kinds, ", ")) + " |\n";
}

std::string section_of(const FileReference& reference) {
  const std::vector<ReadKey> keys = keys_of(reference);
  std::string section = "\n## " + std::string(reference.title) + "\n\n" +
                        std::string(reference.text) +
                        "\n\n| key | type | default | range | meaning | example |\n"
                        "|---|---|---|---|---|---|\n";
  for (const KeyMeaning& meaning : reference.meanings) {
    const auto found = std::ranges::find(keys, meaning.name, &ReadKey::name);
    ensure(found != keys.end(), "'" + std::string(meaning.name) + "' is read");
    section += row_of(found->name, *found, meaning.meaning, std::string(meaning.example)) + "\n";
  }
  return section;
}

std::string_view readers_column(std::string_view table) {
  if (table == "model") return "models";
  return table == "data" ? "data" : "for";
}

}  // namespace

std::vector<ReferenceKey> reference_keys() {
  std::vector<std::vector<ReadKey>> by_model, by_data;
  for (const std::string& kind : model_kinds())
    by_model.push_back(keys_of(settings_with(kind, "text")));
  for (const std::string& kind : data_kinds())
    by_data.push_back(keys_of(settings_with("gpt", kind)));
  std::vector<ReferenceKey> keys = keys_by_kind("model", model_kinds(), by_model);
  const auto add = [&](std::vector<ReferenceKey> more) {
    keys.insert(keys.end(), more.begin(), more.end());
  };
  add(keys_by_kind("data", data_kinds(), by_data));
  for (const ReadKey& key : by_model.front())
    if (!key.name.starts_with("model.") && !key.name.starts_with("data."))
      keys.push_back({key, {}});
  return keys;
}

std::string configuration_page() {
  const std::vector<ReferenceKey> keys = reference_keys();
  std::string page =
      "# Configuration\n\n"
      "Every key of configurations, [presets](#presets), [plan files](#plan-files) and [cost\n"
      "files](#cost-files), made from the parsers that read them. A configuration has one table "
      "for each\nsection; a key that is left out has its default. `--set train.steps=10` overrides "
      "a key, and\n`tessera inspect CONFIG` prints all that are in effect.\n";
  for (const PageTable& table : kTables) {
    page += "\n## [" + std::string(table.name) + "]\n\n" + std::string(table.text) + "\n";
    std::string rows;
    for (const ReferenceKey& key : keys)
      if (key.key.name.starts_with(std::string(table.name) + ".")) rows += row_of(key);
    if (!rows.empty())
      page += "\n| key | type | default | range | meaning | example | " +
              std::string(readers_column(table.name)) + " |\n|---|---|---|---|---|---|---|\n" +
              rows;
  }
  for (const FileReference& reference : file_references()) page += section_of(reference);
  return page;
}

}  // namespace tessera
