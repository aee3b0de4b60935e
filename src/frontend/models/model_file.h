// A model that is given by a file: a configuration, or a file of another system, of which a reader
// makes the settings of a configuration.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "training/config/config.h"

namespace tessera {

struct ModelFile {
  ConfigFile config;
  /// What the reader assumed, and what of the file it did not read, for people.
  std::vector<std::string> notes = {};
};

struct ModelFileOptions {
  std::vector<std::string> sets = {};  // "train.steps=10", as of read_config_file
  std::optional<int> ranks = {};       // of the run, when it is known
  /// A folder with NAME.json for each known model; "": none is known by its name.
  std::filesystem::path known = {};
};

/// Reads a CONFIG.toml, a config.json of Hugging Face or a folder with one, or a known model by its
/// name, such as "llama3-8b".
///
///   throws  UserError: as read_config_file; 65 for a config.json whose model is not understood,
///   with
///           the key; 66 for what is neither a file nor a name
ModelFile read_model_file(const std::string& file_or_name, const ModelFileOptions& options);

/// Of the folder, in order.
std::vector<std::string> known_models(const std::filesystem::path& folder);

}  // namespace tessera
