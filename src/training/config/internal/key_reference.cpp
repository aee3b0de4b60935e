#include "training/config/internal/key_reference.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/models/families.h"

namespace tessera {
namespace {

/// Settings of a kind with what its reader cannot do without.
Document settings_with(const std::string& model, const std::string& data) {
  Document settings;
  settings["model"]["kind"] = model;
  Document& table = settings["data"];
  table["kind"] = data;
  if (data == "idx") {
    table["images"] = "images.idx";
    table["labels"] = "labels.idx";
  } else if (data == "text" || data == "jsonl" || data == "npy" || data == "cifar") {
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

constexpr KeyMeaning kMeanings[] = {
    {"model.kind", "Family of the model", "\"gpt\""},
    {"model.vocabulary",
     "Number of tokens, for `plan`, `simulate` and `explain` without data; 0: the data gives it",
     "128256"},
    {"model.context", "Tokens of a sample", "128"},
    {"model.layers", "Layers, or blocks", "12"},
    {"model.width", "Features of a layer", "768"},
    {"model.dropout", "Share of elements that dropout sets to zero", "0.2"},
    {"model.heads", "Heads of attention; they divide the width", "8"},
    {"model.embedding", "Features of the embedding of a token", "64"},
    {"model.tied", "Is the matrix of the logits that of the embedding?", "true"},
    {"model.kv_heads", "Heads of keys and values; 0: as many as heads", "4"},
    {"model.ffn", "Features between the two products of a block; 0: 8/3 of the width", "2048"},
    {"model.depth", "Layers of the variant: 18, 20, 34, 50 or 56", "56"},
    {"model.rope_base", "Base of the angles of rotary positions", "500000.0"},
    {"model.lora_rank",
     "Rank of the [adapters](training.md#lora), which are trained in place of the parameters; 0: "
     "none",
     "8"},
    {"model.lora_alpha", "The result of an adapter is multiplied by this, over its rank", "32.0"},
    {"model.lora_targets", "Weights of linear layers that get adapters",
     "[\"*.ffn.{up,down}.weight\"]"},

    {"data.kind", "Where samples come from", "\"text\""},
    {"data.path", "Files; of text also folders", "[\"a.txt\", \"b.txt\"]"},
    {"data.images", "File of the images", "\"train-images.idx\""},
    {"data.labels", "File of the labels", "\"train-labels.idx\""},
    {"data.layout", "Order of the dims of images; `auto`: as their extents say", "\"nhwc\""},
    {"data.tokens", "What a token of text is", "\"characters\""},
    {"data.max_bytes", "Bytes of text that are read; 0: all", "1048576"},
    {"data.vocabulary", "Number of tokens; 0: the largest token of the data plus one", "50257"},
    {"data.classes", "Number of classes; 0: the largest label plus one, of `cifar` 10", "100"},
    {"data.ignore_label", "Label that is not counted, beside -1", "-100"},
    {"data.states", "States of the chain", "16"},
    {"data.samples", "Generated samples, with those held out", "10000"},
    {"data.size", "Rows and columns of a generated image", "32"},
    {"data.noise", "Deviation of the noise of each pixel", "0.2"},
    {"data.held_out", "Share of the data that is held out for evaluations", "0.05"},
    {"data.stride", "Tokens from one sample to the next; 0: the context", "32"},
    {"data.mask_block",
     "Of each block of n tokens one is masked and predicted; 0: the next token is "
     "predicted",
     "7"},
    {"data.seed", "Seed of generated data and of masks", "2"},
    {"data.shuffle", "Order of the samples of an epoch", "\"after_split\""},
    {"data.tail", "What becomes of the samples that fill no batch", "\"pad\""},

    {"train.batch", "Rows of a step, over all ranks", "64"},
    {"train.batch_per_rank", "Rows of each data-parallel rank, in place of `batch`", "8"},
    {"train.scale_learning_rate",
     "Does the learning rate grow with the data-parallel ranks of `batch_per_rank`?", "\"linear\""},
    {"train.steps", "Steps of the whole run", "1000"},
    {"train.seed", "Seed of initial values, of dropout and of the order of samples", "7"},
    {"train.precision",
     "Element type of products and of what is between them ([mixed "
     "precision](training.md#mixed-precision))",
     "\"bf16\""},
    {"train.gradient_precision",
     "Element type in which ranks send gradients of parameters that products read: `f32`, or "
     "`precision`",
     "\"bf16\""},
    {"train.loss_scale", "Of `f16`: factor of the loss in the first step, a power of two", "1024"},
    {"train.loss_scale_steps",
     "Of `f16`: steps without an overflow after which the factor is doubled", "500"},
    {"train.reduction",
     "Sums between processes in the order of ranks, with the bits of one process, or in any",
     "\"fast\""},
    {"train.evaluate_every", "Steps between evaluations; 0: only at the end", "100"},
    {"train.evaluate_batches", "Batches of an evaluation, at most; 0: all held-out data", "50"},
    {"train.patience",
     "Evaluations without a better held-out loss after which the run ends; 0: it does not", "5"},
    {"train.min_improvement", "By how much a held-out loss is better", "0.001"},

    {"optimizer.kind", "Rule of the updates", "\"sgd\""},
    {"optimizer.momentum", "Of `momentum` and `muon` (0.95): share of the last update that is kept",
     "0.8"},
    {"optimizer.adam", "Of `muon`: parameters that it updates as `adamw` does", "[\"head.*\"]"},
    {"optimizer.frozen", "Parameters that keep their values; they have no gradient and no state",
     "[\"tokens.*\"]"},
    {"optimizer.beta1", "Of `adam`, `adamw`, `lamb`, `muon`: decay of the mean of gradients",
     "0.85"},
    {"optimizer.beta2", "Of `adam`, `adamw`, `lamb`, `muon`: decay of the mean of their squares",
     "0.95"},
    {"optimizer.epsilon", "Of `adam`, `adamw`, `lamb`, `muon`: added to the divisor", "1e-6"},
    {"optimizer.weight_decay",
     "Decay of weights; decoupled from the gradient except for `sgd`, `momentum`, `adam`", "0.1"},
    {"optimizer.clip_norm", "Greatest norm of all gradients together; 0: they are not clipped",
     "1.0"},
    {"optimizer.learning_rate", "Learning rate after the warm-up", "3e-4"},
    {"optimizer.schedule", "How the learning rate falls until the last step", "\"cosine\""},
    {"optimizer.warmup", "Steps in which the learning rate rises", "100"},
    {"optimizer.warmup_start", "Share of the learning rate with which the warm-up begins", "0.1"},
    {"optimizer.final", "Share of the learning rate at the last step", "0.1"},

    {"checkpoint.every", "Steps between checkpoints; 0: only at the end", "500"},
    {"checkpoint.keep_last", "Checkpoints that are kept; 0: all", "1"},
    {"checkpoint.keep_best",
     "Is the one with the best held-out loss kept, too? It needs `train.evaluate_every`", "true"},

    {"parallel", "A plan", "{mesh = {dp = 2, tp = 2}}"},
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

std::string row_of(const ReferenceKey& reference, const KeyMeaning& meaning) {
  const std::string name = reference.key.name.substr(reference.key.name.find('.') + 1);
  return row_of(name, reference.key, meaning.meaning, name + " = " + std::string(meaning.example)) +
         " " + (reference.kinds.empty() ? "all" : join(reference.kinds, ", ")) + " |\n";
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

std::span<const KeyMeaning> key_meanings() {
  return kMeanings;
}

std::vector<ReferenceKey> reference_keys() {
  std::vector<std::vector<ReadKey>> by_model, by_data;
  for (const std::string& kind : family_names())
    by_model.push_back(keys_of(settings_with(kind, "text")));
  for (const std::string& kind : data_kinds())
    by_data.push_back(keys_of(settings_with("gpt", kind)));
  std::vector<ReferenceKey> keys = keys_by_kind("model", family_names(), by_model);
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
  std::map<std::string, ReferenceKey, std::less<>> keys;
  for (ReferenceKey& key : reference_keys()) keys.emplace(key.key.name, std::move(key));
  std::string page =
      "# Configuration\n\n"
      "Every key of configurations, [presets](#presets), [plan files](#plan-files) and [cost\n"
      "files](#cost-files), made from the parsers that read them. A configuration has one table "
      "for each\nsection; a key that is left out has its default. `--set train.steps=10` overrides "
      "a key, and\n`tessera inspect CONFIG` prints all that are in effect.\n";
  for (const PageTable& table : kTables) {
    page += "\n## [" + std::string(table.name) + "]\n\n" + std::string(table.text) + "\n";
    std::string rows;
    for (const KeyMeaning& meaning : key_meanings())
      if (meaning.name.starts_with(std::string(table.name) + ".")) {
        const auto found = keys.find(meaning.name);
        ensure(found != keys.end(), "'" + std::string(meaning.name) + "' is read");
        rows += row_of(found->second, meaning);
      }
    if (!rows.empty())
      page += "\n| key | type | default | range | meaning | example | " +
              std::string(readers_column(table.name)) + " |\n|---|---|---|---|---|---|---|\n" +
              rows;
  }
  for (const FileReference& reference : file_references()) page += section_of(reference);
  return page;
}

}  // namespace tessera
