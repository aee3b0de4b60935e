#include "frontend/models/parameters.h"

#include "base/error.h"
#include "base/files/file.h"
#include "frontend/models/internal/foreign_names.h"
#include "frontend/models/model_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"

namespace tessera {
namespace {

constexpr Bytes kBytesOfFile(int64_t{5'000'000'000});

}  // namespace

bool has_parameters(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || has_hugging_face_config(path);
}

std::vector<std::string> load_parameters(Engine& engine, const ModelConfig& model,
                                         FileSystem& files, const std::filesystem::path& path) {
  const TensorFiles tensors(files, path);
  if (path.extension() == ".safetensors")
    return load_foreign_parameters(engine, tensors, own_names(engine.graph()));
  return load_foreign_parameters(engine, tensors, hugging_face_names_of(path, model));
}

void export_as_hugging_face(FileSystem& files, const Checkpoint& checkpoint, const StoredRun& run,
                            const std::filesystem::path& like,
                            const std::filesystem::path& folder) {
  const ForeignNames names = hugging_face_names_of(like, run.config.model);
  const Graph graph = forward_graph(network_of(run.config.model), ForwardPurpose::kEvaluation,
                                    run.config.train.batch, run.config.train.seed);
  std::map<std::string, TensorType> variables;
  for (const Variable& variable : graph.variables())
    if (variable.trainable)
      variables.emplace(graph.value(variable.value).name, graph.type(variable.value));
  const std::string config = read_file(hugging_face_config(like));
  export_foreign_parameters(files, checkpoint, variables, names, folder, kBytesOfFile);
  write_file(folder / "config.json", config);
}

}  // namespace tessera
