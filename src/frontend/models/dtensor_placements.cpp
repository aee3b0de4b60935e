#include "frontend/models/dtensor_placements.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/models/internal/foreign_names.h"
#include "training/engine/checkpoints/foreign_parameters.h"

namespace tessera {
namespace {

int64_t product(const Shape& shape, int begin, int end) {
  int64_t count = 1;
  for (int dim = begin; dim < end; ++dim) count *= shape[dim];
  return count;
}

/// Where a dim of ours begins in a tensor of theirs.
struct ForeignLayout {
  Shape shape;
  std::vector<int> dims;  // by dim of ours
  /// By dim of ours: is it the outermost one of those that are one dim of theirs?
  std::vector<bool> is_outermost;
};

ForeignLayout layout_of(const ForeignTensor& tensor, const Shape& shape) {
  ForeignLayout layout;
  if (tensor.keeps_shape) {
    layout.shape = shape;
    layout.dims.resize(static_cast<size_t>(shape.size()));
    std::iota(layout.dims.begin(), layout.dims.end(), 0);
    layout.is_outermost.assign(static_cast<size_t>(shape.size()), true);
    return layout;
  }
  const int64_t in = product(shape, 0, tensor.input_dims);
  const int64_t out = product(shape, tensor.input_dims, shape.size());
  if (tensor.input_dims == 0)
    layout.shape = {out};
  else
    layout.shape = tensor.transposed ? Shape{out, in} : Shape{in, out};
  for (int dim = 0; dim < shape.size(); ++dim) {
    const bool is_input = dim < tensor.input_dims;
    layout.dims.push_back(tensor.input_dims == 0 ? 0 : is_input == tensor.transposed ? 1 : 0);
    const int begin = is_input ? 0 : tensor.input_dims;
    layout.is_outermost.push_back(product(shape, begin, dim) == 1);
  }
  return layout;
}

/// Writes placements, and notes what they cannot say.
class DtensorWriter {
 public:
  DtensorWriter(const Graph& graph, const ShardedGraph& sharded)
      : graph_(graph), sharded_(sharded) {
    document_["format"] = "tessera-dtensor";
    document_["version"] = 1;
    for (const char* list : {"meshes", "notes"}) document_[list] = Document::List{};
    for (const char* table : {"parameters", "inputs", "constraints"})
      document_[table] = Document::Table{};
  }

  void add_parameters(const ForeignNames& names) {
    std::map<std::string, int> users;
    for (const Variable& variable : graph_.variables())
      if (const ForeignTensor* tensor = find(names, variable)) ++users[tensor->name];
    for (const Variable& variable : graph_.variables()) {
      const ForeignTensor* tensor = find(names, variable);
      if (!tensor || document_["parameters"].find(tensor->name)) continue;
      const Shape& shape = graph_.type(variable.value).shape;
      ForeignLayout layout = layout_of(*tensor, shape);
      const bool is_whole = users[tensor->name] == 1 && tensor->group == 0 && tensor->first == 0;
      if (!is_whole && !sharded_.at(variable.value).is_replicated())
        note(tensor->name, "several of our parameters are parts of it: copies");
      document_["parameters"][tensor->name] = placed(
          tensor->name, variable.value, is_whole ? std::optional(std::move(layout)) : std::nullopt);
    }
  }

  void add_values() {
    for (const ValueId input : graph_.inputs())
      document_["inputs"][graph_.value(input).name] = own(input);
    Document notes = document_["notes"];  // without those of thousands of values
    for (const Op& op : graph_.ops())
      for (const ValueId output : op.outputs)
        if (op.role == Role::kForward && is_divided(output))
          document_["constraints"][graph_.value(output).name] = own(output);
    document_["notes"] = std::move(notes);
  }

  Document document() && { return std::move(document_); }

 private:
  const ForeignTensor* find(const ForeignNames& names, const Variable& variable) const {
    const auto found = names.by_variable.find(graph_.value(variable.value).name);
    return variable.trainable && found != names.by_variable.end() ? &found->second : nullptr;
  }

  bool is_divided(ValueId value) const {
    const DistAttr& attr = sharded_.at(value);
    return std::ranges::any_of(attr.dims, [](const DimSharding& dim) { return !dim.axes.empty(); });
  }

  void note(const std::string& name, const std::string& what) {
    document_["notes"].append(name + ": " + what);
  }

  int64_t mesh_of(const MeshPtr& mesh) {
    const auto found =
        std::ranges::find_if(meshes_, [&](const MeshPtr& known) { return *known == *mesh; });
    if (found != meshes_.end()) return found - meshes_.begin();
    meshes_.push_back(mesh);
    Document item;
    for (const char* list : {"axes", "shape", "ranks"}) item[list] = Document::List{};
    for (int axis = 0; axis < mesh->axis_count(); ++axis) {
      item["axes"].append(mesh->axes()[static_cast<size_t>(axis)]);
      item["shape"].append(mesh->shape()[axis]);
    }
    for (const Rank rank : mesh->ranks()) item["ranks"].append(rank);
    document_["meshes"].append(std::move(item));
    return std::ssize(meshes_) - 1;
  }

  Document own(ValueId value) {
    const Shape& shape = graph_.type(value).shape;
    return placed(graph_.value(value).name, value,
                  layout_of({.name = "", .keeps_shape = true}, shape));
  }

  /// Without a layout a copy on every rank.
  Document placed(const std::string& name, ValueId value,
                  const std::optional<ForeignLayout>& layout) {
    const DistAttr& attr = sharded_.at(value);
    const Shape& shape = graph_.type(value).shape;
    std::vector<std::string> axes(static_cast<size_t>(attr.mesh->axis_count()), "Replicate()");
    for (int dim = 0; layout && dim < shape.size(); ++dim) {
      const DimSharding& division = attr.dims[dim];
      if (division.axes.empty()) continue;
      const std::string which = fmt::format("dim {}", layout->dims[static_cast<size_t>(dim)]);
      if (division.chunks > 1 || !division.windows.empty() ||
          !layout->is_outermost[static_cast<size_t>(dim)] ||
          !std::ranges::is_sorted(division.axes)) {
        note(name, which + " is divided in a way that DTensor has not: copies");
        continue;
      }
      if (attr.blocks(dim) != attr.parts(dim) || shape[dim] % attr.parts(dim) != 0) {
        note(name, which + " has parts of unequal size, other ones than torch.chunk makes: copies");
        continue;
      }
      for (const int axis : division.axes)
        axes[static_cast<size_t>(axis)] =
            fmt::format("Shard({})", layout->dims[static_cast<size_t>(dim)]);
    }
    Document item;
    item["mesh"] = mesh_of(attr.mesh);
    item["shape"] = item["placements"] = Document::List{};
    for (const int64_t extent : layout ? layout->shape : shape) item["shape"].append(extent);
    for (const std::string& placement : axes) item["placements"].append(placement);
    return item;
  }

  const Graph& graph_;
  const ShardedGraph& sharded_;
  Document document_;
  std::vector<MeshPtr> meshes_;
};

}  // namespace

Document dtensor_placements(const Graph& graph, const ShardedGraph& sharded,
                            const std::filesystem::path& path, const ModelConfig& model) {
  DtensorWriter writer(graph, sharded);
  writer.add_parameters(names_of_file(path, model, graph));
  writer.add_values();
  return std::move(writer).document();
}

}  // namespace tessera
