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
    {"--output", "--out DIR"},
    {"--output-dir", "--out DIR"},
});

}  // namespace

std::string option_alias(std::string_view option, const std::vector<std::string>& legal) {
  std::string name(option);  // words are joined by dashes or underscores
  std::ranges::replace(name, '_', '-');
  for (const auto& [theirs, ours] : kOptions) {
    if (theirs != name) continue;
    const std::string needed = split_text(ours, ' ').front();
    if (std::ranges::find(legal, needed) != legal.end()) return std::string(ours);
  }
  return "";
}

}  // namespace tessera
