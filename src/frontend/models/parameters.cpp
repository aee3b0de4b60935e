#include "frontend/models/parameters.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/file.h"
#include "frontend/models/internal/hugging_face.h"
#include "frontend/models/internal/hugging_face_names.h"
#include "frontend/models/model_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "training/config/config.h"

namespace tessera {
namespace {

constexpr Bytes kBytesOfFile(int64_t{5'000'000'000});

std::filesystem::path config_of(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown) ? path / "config.json" : path;
}

/// Of a config.json, for a model whose parameters it has.
ForeignNames names_for(const std::filesystem::path& path, const ModelConfig& model) {
  const std::string origin = config_of(path).string();
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

}  // namespace

bool has_parameters(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || has_hugging_face_config(path);
}

std::vector<std::string> load_parameters(Engine& engine, const ModelConfig& model,
                                         FileSystem& files, const std::filesystem::path& path) {
  const TensorFiles tensors(files, path);
  if (path.extension() == ".safetensors")
    return load_foreign_parameters(engine, tensors, own_names(engine.graph()));
  return load_foreign_parameters(engine, tensors, names_for(path, model));
}

void export_as_hugging_face(FileSystem& files, const Checkpoint& checkpoint, const StoredRun& run,
                            const std::filesystem::path& like,
                            const std::filesystem::path& folder) {
  const ForeignNames names = names_for(like, run.config.model);
  const Graph graph = forward_graph(network_of(run.config.model), ForwardPurpose::kEvaluation,
                                    run.config.train.batch, run.config.train.seed);
  std::map<std::string, TensorType> variables;
  for (const Variable& variable : graph.variables())
    if (variable.trainable)
      variables.emplace(graph.value(variable.value).name, graph.type(variable.value));
  const std::string config = read_file(config_of(like));
  export_foreign_parameters(files, checkpoint, variables, names, folder, kBytesOfFile);
  write_file(folder / "config.json", config);
}

}  // namespace tessera
