// The model that a command line names: a configuration, a file of another system, or a known model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "frontend/models/model_file.h"

namespace tessera {

/// The folder of configurations: that of the sources of this program, the one beside it, or that of
/// an installation; "" where there is none.
std::filesystem::path config_folder();

/// The file of a model: of a known one that in config_folder().
std::filesystem::path model_path(const std::string& file_or_name);

/// read_model_file, with the known models of config_folder(). Its notes go to standard error.
///   batch  "ROWSxCONTEXT": --set train.batch and model.context; "": as the file says
///   throws UserError: 2 for another form of `batch`; as read_model_file
ConfigFile named_model(const std::string& file_or_name, std::vector<std::string> sets,
                       std::optional<int> ranks = {}, const std::string& batch = "");

}  // namespace tessera
