// A model that is given by a file: a configuration, or a file of another system, of which a reader
// makes the settings of a configuration.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/config/config.h"

namespace tessera {

/// The ending of graph files.
inline constexpr std::string_view kGraphExtension = ".graph";

/// Is the folder that of a model of Hugging Face? Its config.json says so; runs have one, too.
bool has_hugging_face_config(const std::filesystem::path& folder);

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

/// Reads a CONFIG.toml, a graph file (ir/models/graph_file.h) called *.graph, a config.json of
/// Hugging Face or a folder with one, or a known model by its name, such as "llama3-8b".
///
///   throws  UserError: as read_config_file and load_network; 65 for a config.json whose model is
///   not understood, with
///           the key; 66 for what is neither a file nor a name
ModelFile read_model_file(const std::string& file_or_name, const ModelFileOptions& options);

/// Of the folder, in order.
std::vector<std::string> known_models(const std::filesystem::path& folder);

}  // namespace tessera
