#include "training/engine/checkpoints/parameter_export.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "ir/ops/parameter_roles.h"
#include "training/checkpoint/safetensors.h"

namespace tessera {
namespace {

ExportedTensor in_torch_layout(const Graph& graph, ValueId variable, ExportedTensor tensor) {
  Shape& shape = tensor.type.shape;
  if (const std::optional<int> inputs = input_dims_of_weight(graph, variable)) {
    int64_t rows = 1;
    for (int d = 0; d < *inputs; ++d) rows *= shape[d];
    shape = {rows > 0 ? element_count(shape) / rows : 0, rows};
    tensor.is_transposed = true;
  } else if (is_bias(graph, variable)) {
    shape = {element_count(shape)};
  }
  return tensor;
}

/// `rows` x `columns` elements of `size` bytes, transposed.
std::vector<std::byte> transposed(const std::vector<std::byte>& from, int64_t rows, int64_t columns,
                                  int64_t size) {
  std::vector<std::byte> to(from.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      std::memcpy(to.data() + (c * rows + r) * size, from.data() + (r * columns + c) * size,
                  static_cast<size_t>(size));
  return to;
}

/// The bytes of a tensor of the checkpoint as they are written.
std::vector<std::byte> bytes_of(const Checkpoint& checkpoint, const ExportedTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(byte_size(tensor.type).value()));
  checkpoint.load_box(tensor.name, whole_box(tensor.stored), bytes.data());
  if (!tensor.is_transposed) return bytes;
  return transposed(bytes, tensor.type.shape[1], tensor.type.shape[0], size_of(tensor.type.dtype));
}

/// The file to replace: where a symbolic link leads.
std::filesystem::path target_of(const std::filesystem::path& to) {
  std::error_code unknown;
  if (!std::filesystem::exists(to, unknown)) return to;
  std::filesystem::path target = std::filesystem::canonical(to, unknown);
  if (!unknown && std::filesystem::is_regular_file(target, unknown)) return target;
  throw cannot_write_error(to, "it is a device or a folder");
}

}  // namespace

std::string_view to_text(TensorLayout layout) {
  return layout == TensorLayout::kTorch ? "torch" : "native";
}

std::vector<ExportedTensor> exported_tensors(const StoredRun& run, TensorLayout layout) {
  const Graph graph = forward_graph(network_of(run.config.model), ForwardPurpose::kEvaluation,
                                    run.config.train.batch, run.config.train.seed);
  std::vector<ExportedTensor> tensors;
  for (const Variable& variable : graph.variables()) {
    const TensorType& type = graph.type(variable.value);
    ExportedTensor tensor{graph.value(variable.value).name, type.shape, type};
    tensors.push_back(layout == TensorLayout::kTorch
                          ? in_torch_layout(graph, variable.value, std::move(tensor))
                          : std::move(tensor));
  }
  return tensors;
}

void export_parameters(FileSystem& files, const Checkpoint& checkpoint,
                       const std::vector<ExportedTensor>& tensors, TensorLayout layout,
                       const std::filesystem::path& to) {
  const std::filesystem::path target = target_of(to);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorToWrite> writes;
  for (const ExportedTensor& tensor : tensors) {
    bytes.push_back(bytes_of(checkpoint, tensor));
    writes.push_back(
        {tensor.name, to_file_dtype(tensor.type.dtype), tensor.type.shape, bytes.back().data()});
  }
  std::filesystem::path aside = target;
  aside += ".tmp";
  {
    const auto file = files.create(aside);
    write_safetensors(*file, std::move(writes),
                      {{"format", "pt"},
                       {"layout", std::string(to_text(layout))},
                       {"step", std::to_string(checkpoint.step())}});
    file->sync();
  }
  files.rename(aside, target);
  files.sync_folder(folder_of(target));
}

}  // namespace tessera
