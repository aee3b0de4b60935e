#include "tools/cli/internal/option_aliases.h"

#include <algorithm>
#include <array>

#include "base/text/text.h"

namespace tessera {
namespace {

struct OptionAlias {
  std::string_view theirs, ours;
};

constexpr std::array kOptions = std::to_array<OptionAlias>({
    {"--lr", "--set optimizer.learning_rate=VALUE"},
    {"--learning-rate", "--set optimizer.learning_rate=VALUE"},
    {"--weight-decay", "--set optimizer.weight_decay=VALUE"},
    {"--optimizer", "--set optimizer.kind=NAME"},
    {"--batch", "--set train.batch=ROWS"},
    {"--batch-size", "--set train.batch=ROWS"},
    {"--seed", "--set train.seed=N"},
    {"--data", "--set data.path=FILE"},
    {"--epochs", "--steps N"},
    {"--max-steps", "--steps N"},
    {"--iterations", "--steps N"},
    {"--gpus", "--ranks N"},
    {"--devices", "--ranks N"},
    {"--nproc", "--ranks N"},
    {"--nproc-per-node", "--processes N"},
    {"--output", "--out FILE"},
    {"--output-dir", "--out DIR"},
    {"--parallel", "--plan PRESET"},
    {"--strategy", "--plan PRESET"},
    {"--hardware", "--cluster FILE|LINE"},
    {"--save-dir", "--out DIR"},
    {"--max-new-tokens", "--tokens N"},
});

constexpr std::string_view kNoGpu =
    "training runs on the cores of CPUs; of GPUs Tessera only plans and predicts a step";
constexpr std::string_view kSetPrecision =
    "write --set train.precision=bf16 or train.precision=f16";
constexpr std::array kForeign = std::to_array<ForeignOption>({
    {"--config", "the configuration is an argument without an option",
     "write the file alone: tessera train my.toml"},
    {"--config-file", "the configuration is an argument without an option",
     "write the file alone: tessera train my.toml"},
    {"--model", "the model is a table of the configuration",
     "set model.kind and its sizes there, or with --set model.kind=gpt"},
    {"--device", kNoGpu, "remove it"},
    {"--cuda", kNoGpu, "remove it"},
    {"--precision", "the precision is a key of the configuration", kSetPrecision},
    {"--bf16", "the precision is a key of the configuration", kSetPrecision},
    {"--fp16", "the precision is a key of the configuration", kSetPrecision},
    {"--tokenizer", "texts are read as bytes or as characters; there is no other tokenizer",
     "write --set data.tokens=bytes, or give tokens in a .npy file"},
});

/// With words joined by dashes: they may be joined by underscores, too.
std::string with_dashes(std::string_view option) {
  std::string name(option);
  std::ranges::replace(name, '_', '-');
  return name;
}

}  // namespace

std::string option_alias(std::string_view option, const std::vector<std::string>& legal) {
  const std::string name = with_dashes(option);
  for (const auto& [theirs, ours] : kOptions) {
    if (theirs != name) continue;
    const std::string needed = split_text(ours, ' ').front();
    if (std::ranges::find(legal, needed) != legal.end()) return std::string(ours);
  }
  return "";
}

ForeignOption foreign_option(std::string_view option) {
  const auto* const found =
      std::ranges::find(kForeign, with_dashes(option), &ForeignOption::option);
  return found == kForeign.end() ? ForeignOption{} : *found;
}

}  // namespace tessera
