#include "tools/cli/internal/run/named_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "tools/cli/internal/option_parser.h"
#include "tools/cli/internal/print/print.h"

namespace tessera {
namespace {

void add_batch(const std::string& batch, std::vector<std::string>& sets) {
  if (batch.empty()) return;
  const size_t cross = batch.find('x');
  const auto is_count = [](const std::string& text) {
    return !text.empty() && text.size() < 10 &&
           std::ranges::all_of(text, [](unsigned char c) { return c >= '0' && c <= '9'; });
  };
  if (cross == std::string::npos || !is_count(batch.substr(0, cross)) ||
      !is_count(batch.substr(cross + 1)))
    refuse_usage("--batch is '" + batch + "'", "it takes rows and the tokens of a row",
                 "write it as in --batch 1024x4096");
  sets.push_back("train.batch=" + batch.substr(0, cross));
  sets.push_back("model.context=" + batch.substr(cross + 1));
}

}  // namespace

std::filesystem::path config_folder() {
  const std::filesystem::path program = program_file().parent_path();
  for (const auto& folder : {std::filesystem::path(TESSERA_SOURCE_DIR) / "configs",
                             program / "configs", program / ".." / "share" / "tessera" / "configs"})
    if (path_exists(folder / "gpt.toml")) return folder;
  return {};
}

std::filesystem::path model_path(const std::string& file_or_name) {
  if (path_exists(file_or_name)) return file_or_name;
  return config_folder() / "models" / (file_or_name + ".json");
}

ConfigFile named_model(const std::string& file_or_name, std::vector<std::string> sets,
                       std::optional<int> ranks, const std::string& batch) {
  add_batch(batch, sets);
  const std::filesystem::path configs = config_folder();
  ModelFile model =
      read_model_file(file_or_name, {.sets = std::move(sets),
                                     .ranks = ranks,
                                     .known = configs.empty() ? configs : configs / "models"});
  for (const std::string& note : model.notes) tell("note: " + note + "\n");
  return std::move(model.config);
}

}  // namespace tessera
