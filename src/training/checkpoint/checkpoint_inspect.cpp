// Summaries of stored data, for readers and scripts.
#include <algorithm>

#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/json_fields.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

Document::List extents_of(const Shape& shape) {
  return Document::List(shape.begin(), shape.end());
}

Document inspect_file(FileSystem& files, const fs::path& path) {
  const SafetensorsFile file(files, path);
  Document::List tensors;
  Document::Table metadata;
  int64_t bytes = 0;
  for (const FileTensor& tensor : file.header().tensors) {
    tensors.emplace_back(Document::Table{{"name", tensor.name},
                                         {"dtype", std::string(to_text(tensor.dtype))},
                                         {"shape", extents_of(tensor.shape)},
                                         {"bytes", tensor.bytes()}});
    bytes += tensor.bytes();
  }
  for (const auto& [key, value] : file.header().metadata) metadata.emplace_back(key, value);
  return Document::Table{{"kind", "safetensors"},
                         {"bytes", bytes},
                         {"tensor_count", std::ssize(tensors)},
                         {"tensors", std::move(tensors)},
                         {"metadata", std::move(metadata)}};
}

int64_t bytes_of(const CheckpointIndex& index) {
  int64_t bytes = 0;
  for (const auto& [name, stored] : index.tensors) bytes += byte_size(stored.whole).value();
  return bytes;
}

Document inspect_checkpoint(FileSystem& files, const fs::path& path) {
  const Checkpoint checkpoint(files, path);
  Document::List tensors;
  for (const auto& [name, stored] : checkpoint.index().tensors)
    tensors.emplace_back(
        Document::Table{{"name", name},
                        {"dtype", std::string(to_text(to_file_dtype(stored.whole.dtype)))},
                        {"shape", extents_of(stored.whole.shape)},
                        {"bytes", byte_size(stored.whole).value()},
                        {"parts", std::ssize(stored.parts)}});
  Document::List names;
  for (const auto& [name, stored] : checkpoint.index().files) names.emplace_back(name);
  return Document::Table{{"kind", "checkpoint"},
                         {"version", kCheckpointFormat},
                         {"step", checkpoint.step()},
                         {"ranks", checkpoint.index().ranks},
                         {"bytes", bytes_of(checkpoint.index())},
                         {"files", std::move(names)},
                         {"tensor_count", std::ssize(tensors)},
                         {"tensors", std::move(tensors)},
                         {"state", checkpoint.state()}};
}

Document inspect_folder(FileSystem& files, const fs::path& path) {
  const CheckpointFolder folder(files, path);
  const std::optional<int64_t> latest = folder.latest(), good = folder.latest_good();
  Document::List checkpoints;
  for (int64_t step : folder.steps()) {
    const std::string damage = folder.damage(step, false);
    checkpoints.emplace_back(Document::Table{{"name", folder.path_of(step).filename().string()},
                                             {"step", step},
                                             {"complete", damage.empty()},
                                             {"damage", damage}});
  }
  if (checkpoints.empty())
    throw bad_data(
        "'" + path.string() + "' holds no checkpoint",
        "it is a folder without index.json and without step-... folders",
        "give a safetensors file, a checkpoint, or the folder of the checkpoints of a run");
  return Document::Table{{"kind", "checkpoints"},
                         {"latest", latest ? Document(checkpoint_name(*latest)) : Document()},
                         {"latest_good", good ? Document(checkpoint_name(*good)) : Document()},
                         {"checkpoints", std::move(checkpoints)}};
}

}  // namespace

Document inspect_stored(FileSystem& files, const fs::path& path) {
  if (!files.is_folder(path)) return inspect_file(files, path);
  const std::vector<std::string> names = files.list(path);
  const bool is_checkpoint =
      std::find(names.begin(), names.end(), "index.json") != names.end() ||
      step_of_name((path / "").parent_path().filename().string()).has_value();
  return is_checkpoint ? inspect_checkpoint(files, path) : inspect_folder(files, path);
}

}  // namespace tessera
