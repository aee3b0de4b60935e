// The names that parameters have in the files of another program, found from its config.json.
#pragma once

#include <filesystem>

#include "ir/graph/graph.h"
#include "ir/models/model.h"
#include "training/engine/checkpoints/foreign_parameters.h"

namespace tessera {

/// The config.json of a folder, or the file itself.
std::filesystem::path hugging_face_config(const std::filesystem::path& path);

/// Of a config.json, or a folder with one, for a model whose parameters it has.
///   throws  UserError (65) for a config.json of another model
ForeignNames hugging_face_names_of(const std::filesystem::path& path, const ModelConfig& model);

/// Where `path` is a config.json or has one, as above; else own_names(graph).
ForeignNames names_of_file(const std::filesystem::path& path, const ModelConfig& model,
                           const Graph& graph);

}  // namespace tessera
