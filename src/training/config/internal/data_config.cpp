#include "training/config/internal/data_config.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/text/text.h"
#include "training/data/vocabulary.h"

namespace tessera {
namespace {

constexpr double kMaxAmount = 1e12;

/// A key of the table, the member that it sets, its range, and the kinds that read it.
struct DataKey {
  const char* name;
  std::variant<int64_t DataConfig::*, double DataConfig::*, std::string DataConfig::*,
               std::vector<std::string> DataConfig::*>
      member;
  std::vector<std::string_view> kinds;
  double smallest = 0, largest = 0;
  std::vector<std::string> choices = {};  // of a text; empty: any
};

const std::vector<DataKey>& keys() {
  static const std::vector<DataKey> kKeys = {
      {"path", &DataConfig::path, {"text", "jsonl", "npy", "cifar"}},
      {"images", &DataConfig::images, {"npy", "idx"}},
      {"labels", &DataConfig::labels, {"npy", "idx"}},
      {"tokens", &DataConfig::tokens, {"text"}, 0, 0, {"bytes", "characters"}},
      {"max_bytes", &DataConfig::max_bytes, {"text"}, 0, kMaxAmount},
      {"layout", &DataConfig::layout, {"npy", "idx"}, 0, 0, {"auto", "nchw", "nhwc"}},
      {"vocabulary", &DataConfig::vocabulary, {"jsonl", "npy"}, 0, 1 << 24},
      {"classes", &DataConfig::classes, {"npy", "idx", "cifar"}, 0, 1 << 20},
      {"ignore_label",
       &DataConfig::ignore_label,
       {"jsonl", "npy", "idx"},
       std::numeric_limits<int32_t>::min(),
       std::numeric_limits<int32_t>::max()},
      {"states", &DataConfig::states, {"markov"}, 2, 1024},
      {"samples", &DataConfig::samples, {"markov", "digits", "shapes"}, 2, kMaxAmount},
      {"size", &DataConfig::size, {"digits", "shapes"}, 12, 1024},
      {"noise", &DataConfig::noise, {"digits", "shapes"}, 0, 1},
      {"held_out", &DataConfig::held_out, {}, 0, 0.9},
      {"stride", &DataConfig::stride, {"text", "jsonl", "npy"}, 0, kMaxAmount},
      {"mask_block", &DataConfig::mask_block, {"text", "jsonl", "npy", "markov"}, 0, 1 << 20},
  };
  return kKeys;
}

/// All kinds read a key without kinds.
bool reads(const DataConfig& data, const DataKey& key) {
  return key.kinds.empty() ||
         std::find(key.kinds.begin(), key.kinds.end(), data.kind) != key.kinds.end();
}

void read(ConfigTable& table, const DataKey& key, DataConfig& data) {
  if (const auto* whole = std::get_if<int64_t DataConfig::*>(&key.member))
    data.** whole = table.integer(key.name, data.**whole, static_cast<int64_t>(key.smallest),
                                  static_cast<int64_t>(key.largest));
  else if (const auto* number = std::get_if<double DataConfig::*>(&key.member))
    data.** number = table.number(key.name, data.**number, key.smallest, key.largest);
  else if (const auto* text = std::get_if<std::string DataConfig::*>(&key.member))
    data.** text = key.choices.empty() ? table.text(key.name, data.**text)
                                       : table.choice(key.name, data.**text, key.choices);
  else if (const auto* list = std::get_if<std::vector<std::string> DataConfig::*>(&key.member))
    data.** list = table.texts(key.name, data.**list);
}

/// Refuses keys that only other kinds read, because they are not misspelled.
void refuse_keys_of_others(const ConfigTable& table, const DataConfig& data) {
  for (const DataKey& key : keys()) {
    if (reads(data, key) || !table.has(key.name)) continue;
    throw UserError(
        table.file() + ": data." + key.name + " is no setting of data of kind " + data.kind,
        "it is one of " + join({key.kinds.begin(), key.kinds.end()}, ", "),
        "remove it, or choose another data.kind", ExitCode::kBadConfig);
  }
}

[[noreturn]] void no_files(const std::string& file, const std::string& key, const std::string& why,
                           const std::string& fix) {
  throw UserError(file + ": " + key + " is missing", why, fix, ExitCode::kBadConfig);
}

/// Refuses paths that the settings of a run, which are JSON, cannot hold.
void check_names(const DataConfig& data, const std::string& file) {
  std::vector<std::string> names = data.path;
  names.insert(names.end(), {data.images, data.labels});
  for (const std::string& name : names)
    if (first_not_utf8(name))
      throw UserError(file + ": the path '" + name + "' of data is not UTF-8",
                      "a run stores its settings as JSON, which has no other bytes",
                      "rename the file, or make a symbolic link to it with such a name",
                      ExitCode::kBadConfig);
}

void check_values(const DataConfig& data, const std::string& file) {
  check_names(data, file);
  for (const auto& [key, value] : {std::pair("images", &data.images), {"labels", &data.labels}})
    if (!data.path.empty() && !value->empty())
      throw UserError(file + ": data.path and data." + key + " are both set",
                      "data.path is of tokens, and data.images with data.labels are of images",
                      "remove data.path, or data.images and data.labels", ExitCode::kBadConfig);
  if (data.mask_block == 1 || data.mask_block == 2)
    throw UserError(
        file + ": data.mask_block = " + std::to_string(data.mask_block) + " is too small",
        "of each block one token is masked that is neither its first nor its last, so that both "
        "neighbours are seen",
        "set it to 3 or more, or to 0 for the next token in place of masked ones",
        ExitCode::kBadConfig);
  if (data.kind == "cifar" && data.classes != 0 && data.classes != 10 && data.classes != 100)
    throw UserError(
        file + ": data.classes = " + std::to_string(data.classes) + " is no kind of CIFAR file",
        "there are CIFAR-10, a byte of label before each image, and CIFAR-100, a coarse and a fine "
        "one",
        "set it to 10 or 100", ExitCode::kBadConfig);
}

}  // namespace

void check_has_files(const DataConfig& data, const std::string& file) {
  const bool has_images = !data.images.empty() && !data.labels.empty();
  if (data.kind == "text" && data.path.empty())
    no_files(file, "data.path", "a run needs text to train on",
             "set data.path to files or folders, here or by --set data.path=FOLDER");
  if ((data.kind == "jsonl" || data.kind == "cifar") && data.path.empty())
    no_files(file, "data.path", "data of kind " + data.kind + " is read from files",
             "set data.path to one file or a list of them");
  if (data.kind == "idx" && !has_images)
    no_files(file, data.images.empty() ? "data.images" : "data.labels",
             "images and labels are a file each",
             "set data.images and data.labels to the two files");
  if (data.kind == "npy" && data.path.empty() && !has_images)
    no_files(file, "data.path, or data.images with data.labels,",
             "an array holds tokens, or images with labels in another",
             "set data.path to a file of tokens, or data.images and data.labels to a file each");
}

const std::vector<std::string>& data_kinds() {
  static const std::vector<std::string> kKinds = {"text",  "jsonl",  "npy",    "idx",
                                                  "cifar", "markov", "digits", "shapes"};
  return kKinds;
}

DataConfig read_data_config(ConfigTable table, bool needs_files) {
  DataConfig data;
  data.kind = table.choice("kind", data.kind, data_kinds());
  refuse_keys_of_others(table, data);
  for (const DataKey& key : keys())
    if (reads(data, key)) read(table, key, data);
  data.seed = static_cast<uint64_t>(
      table.integer("seed", static_cast<int64_t>(data.seed), 0, static_cast<int64_t>(kMaxAmount)));
  const std::string shuffle =
      table.choice("shuffle", "before_split", {"none", "before_split", "after_split"});
  data.shuffle = shuffle == "none"           ? Shuffle::kNone
                 : shuffle == "before_split" ? Shuffle::kBeforeSplit
                                             : Shuffle::kAfterSplit;
  data.tail = table.choice("tail", "drop", {"drop", "pad"}) == "drop" ? Tail::kDrop : Tail::kPad;
  table.finish();
  check_values(data, table.file());
  if (needs_files) check_has_files(data, table.file());
  return data;
}

Document settings_of(const DataConfig& data, int64_t context) {
  DataConfig whole = data;
  if (whole.stride == 0) whole.stride = context;
  if (whole.kind == "cifar" && whole.classes == 0) whole.classes = 10;
  Document table;
  table["kind"] = data.kind;
  for (const DataKey& key : keys()) {
    if (!reads(data, key)) continue;
    if (const auto* list = std::get_if<std::vector<std::string> DataConfig::*>(&key.member))
      table[key.name] = Document::List((whole.**list).begin(), (whole.**list).end());
    else if (const auto* text = std::get_if<std::string DataConfig::*>(&key.member))
      table[key.name] = whole.**text;
    else if (const auto* number = std::get_if<double DataConfig::*>(&key.member))
      table[key.name] = whole.**number;
    else if (const auto* integer = std::get_if<int64_t DataConfig::*>(&key.member))
      table[key.name] = whole.**integer;
  }
  table["seed"] = static_cast<int64_t>(data.seed);
  table["shuffle"] = std::string(to_text(data.shuffle));
  table["tail"] = std::string(to_text(data.tail));
  return table;
}

}  // namespace tessera
