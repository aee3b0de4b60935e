#include "frontend/models/internal/foreign_names.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/file.h"
#include "frontend/models/internal/hugging_face.h"
#include "frontend/models/internal/hugging_face_names.h"
#include "frontend/models/model_file.h"
#include "training/config/config.h"

namespace tessera {

std::filesystem::path hugging_face_config(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown) ? path / "config.json" : path;
}

ForeignNames hugging_face_names_of(const std::filesystem::path& path, const ModelConfig& model) {
  const std::string origin = hugging_face_config(path).string();
  const Document document = parse_json(read_file(origin), origin);
  if (!is_hugging_face(document))
    throw UserError(origin + " has no model_type", "the names of parameters follow from it",
                    "give the folder of a model of Hugging Face", ExitCode::kBadData);
  const ReadModel read = read_hugging_face(document, origin);
  const ModelConfig theirs = read_config_settings(read.settings, origin).run.model;
  if (theirs.kind != model.kind)
    throw UserError(
        fmt::format("{} describes a model of kind {}, and the run has one of kind {}", origin,
                    theirs.kind, model.kind),
        "parameters are those of one model",
        fmt::format("run the model of the file itself: tessera train {}", path.string()),
        ExitCode::kBadData);
  return hugging_face_names(document.find("model_type")->as_string(), model);
}

ForeignNames names_of_file(const std::filesystem::path& path, const ModelConfig& model,
                           const Graph& graph) {
  const bool is_theirs = path.extension() == ".json" || has_hugging_face_config(path);
  return is_theirs ? hugging_face_names_of(path, model) : own_names(graph);
}

}  // namespace tessera
