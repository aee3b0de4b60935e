// Parameters of models that other programs wrote, and for other programs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ir/models/model.h"
#include "training/engine/checkpointing.h"

namespace tessera {

/// Are parameters to be read from here: a file called *.safetensors, or a folder with the
/// config.json of a model of Hugging Face? Other folders are those of checkpoints.
bool has_parameters(const std::filesystem::path& path);

/// Sets the trainable variables of the engine from such a file or folder. A file has the names and
/// the layout of this program, as `export` writes them.
///   model    of the engine
///   returns  the names of tensors that no variable reads
///   throws   UserError (65) as load_foreign_parameters, and for a config.json of another model
std::vector<std::string> load_parameters(Engine& engine, const ModelConfig& model,
                                         FileSystem& files, const std::filesystem::path& path);

/// Writes the parameters of a stored run as a model of Hugging Face: config.json and safetensors.
///   like    a folder with the config.json, or the file, of the model that the run trained
///   folder  is made; files of the same names are replaced
///   throws  UserError (65) for a config.json of another model; as export_foreign_parameters
void export_as_hugging_face(FileSystem& files, const Checkpoint& checkpoint, const StoredRun& run,
                            const std::filesystem::path& like, const std::filesystem::path& folder);

}  // namespace tessera
