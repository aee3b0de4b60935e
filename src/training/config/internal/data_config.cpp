#include "training/config/internal/data_config.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/setting_keys.h"
#include "base/text/text.h"
#include "training/data/vocabulary.h"

namespace tessera {
namespace {

constexpr double kMaxAmount = 1e12;

/// A key of the table, and the kinds that read it.
struct DataKey {
  SettingKey<DataConfig> setting;
  std::vector<std::string_view> kinds;

  const std::string& name() const { return setting.key.name; }
};

const std::vector<DataKey>& keys() {
  static const std::vector<DataKey> kKeys = {
      {{{"path", "Files; of text also folders", "[\"a.txt\", \"b.txt\"]"}, &DataConfig::path},
       {"text", "bin", "jsonl", "npy", "cifar"}},
      {{{"images", "File of the images", "\"train-images.idx\""}, &DataConfig::images},
       {"npy", "idx"}},
      {{{"labels", "File of the labels", "\"train-labels.idx\""}, &DataConfig::labels},
       {"npy", "idx"}},
      {{{"tokens", "What a token of text is", "\"characters\""},
        &DataConfig::tokens,
        0,
        0,
        {"bytes", "characters"}},
       {"text"}},
      {{{"max_bytes", "Bytes of text that are read; 0: all", "1048576"},
        &DataConfig::max_bytes,
        0,
        kMaxAmount},
       {"text"}},
      {{{"layout", "Order of the dims of images; `auto`: as their extents say", "\"nhwc\""},
        &DataConfig::layout,
        0,
        0,
        {"auto", "nchw", "nhwc"}},
       {"npy", "idx"}},
      {{{"vocabulary", "Number of tokens; 0: the largest token of the data plus one", "50257"},
        &DataConfig::vocabulary,
        0,
        1 << 24},
       {"bin", "jsonl", "npy"}},
      {{{"bits", "Bits of a token: 16 or 32", "32"}, &DataConfig::bits, 16, 32}, {"bin"}},
      {{{"classes", "Number of classes; 0: the largest label plus one, of `cifar` 10", "100"},
        &DataConfig::classes,
        0,
        1 << 20},
       {"npy", "idx", "cifar"}},
      {{{"ignore_label", "Label that is not counted, beside -1", "-100"},
        &DataConfig::ignore_label,
        std::numeric_limits<int32_t>::min(),
        std::numeric_limits<int32_t>::max()},
       {"jsonl", "npy", "idx"}},
      {{{"states", "States of the chain", "16"}, &DataConfig::states, 2, 1024}, {"markov"}},
      {{{"samples", "Generated samples, with those held out", "10000"},
        &DataConfig::samples,
        2,
        kMaxAmount},
       {"markov", "digits", "shapes"}},
      {{{"size", "Rows and columns of a generated image", "32"}, &DataConfig::size, 12, 1024},
       {"digits", "shapes"}},
      {{{"noise", "Deviation of the noise of each pixel", "0.2"}, &DataConfig::noise, 0, 1},
       {"digits", "shapes"}},
      {{{"held_out", "Share of the data that is held out for evaluations", "0.05"},
        &DataConfig::held_out,
        0,
        0.9},
       {}},
      {{{"stride", "Tokens from one sample to the next; 0: the context", "32"},
        &DataConfig::stride,
        0,
        kMaxAmount},
       {"text", "bin", "jsonl", "npy"}},
      {{{"mask_block",
         "Of each block of n tokens one is masked and predicted; 0: the next token is predicted",
         "7"},
        &DataConfig::mask_block,
        0,
        1 << 20},
       {"text", "bin", "jsonl", "npy", "markov"}},
      {{{"seed", "Seed of generated data and of masks", "2"}, &DataConfig::seed, 0, kMaxAmount},
       {}},
      {{{"shuffle", "Order of the samples of an epoch", "\"after_split\""},
        word_for<DataConfig, Shuffle>(
            &DataConfig::shuffle, {Shuffle::kNone, Shuffle::kBeforeSplit, Shuffle::kAfterSplit}),
        0,
        0,
        {"none", "before_split", "after_split"}},
       {}},
      {{{"tail", "What becomes of the samples that fill no batch", "\"pad\""},
        word_for<DataConfig, Tail>(&DataConfig::tail, {Tail::kDrop, Tail::kPad}),
        0,
        0,
        {"drop", "pad"}},
       {}},
  };
  return kKeys;
}

/// All kinds read a key without kinds.
bool reads(const DataConfig& data, const DataKey& key) {
  return key.kinds.empty() ||
         std::find(key.kinds.begin(), key.kinds.end(), data.kind) != key.kinds.end();
}

/// Refuses keys that only other kinds read, because they are not misspelled.
void refuse_keys_of_others(const ConfigTable& table, const DataConfig& data) {
  for (const DataKey& key : keys()) {
    if (reads(data, key) || !table.has(key.name())) continue;
    throw UserError(
        table.file() + ": data." + key.name() + " is no setting of data of kind " + data.kind,
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
  if (data.kind == "bin" && data.bits != 16 && data.bits != 32)
    throw UserError(file + ": data.bits = " + std::to_string(data.bits) + " is not possible",
                    "a token of a file has 16 or 32 bits", "set data.bits to 16 or 32",
                    ExitCode::kBadConfig);
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
    no_files(
        file, "data.path", "a run needs text to train on",
        "set data.path to files or folders, here or by --set data.path=FOLDER; without data, plan, "
        "simulate and explain need model.vocabulary");
  if ((data.kind == "bin" || data.kind == "jsonl" || data.kind == "cifar") && data.path.empty())
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
  static const std::vector<std::string> kKinds = {"text",  "bin",    "jsonl",  "npy",   "idx",
                                                  "cifar", "markov", "digits", "shapes"};
  return kKinds;
}

DataConfig read_data_config(ConfigTable table, bool needs_files) {
  DataConfig data;
  data.kind =
      table.choice({"kind", "Where samples come from", "\"text\""}, data.kind, data_kinds());
  refuse_keys_of_others(table, data);
  for (const DataKey& key : keys())
    if (reads(data, key)) read_key(table, key.setting, data);
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
  for (const DataKey& key : keys())
    if (reads(data, key)) write_key(key.setting, whole, table);
  return table;
}

}  // namespace tessera
