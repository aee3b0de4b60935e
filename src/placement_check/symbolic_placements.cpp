#include "placement_check/symbolic_placements.h"

#include <algorithm>

#include "base/error.h"
#include "placement_check/chunk_check.h"
#include "placement_check/derive_placement.h"
#include "shard/micro_batches.h"

namespace tessera {
namespace {

/// "addends (sum over tp)" or "no addends".
std::string addends_text(const std::vector<PartialAxis>& partial, const Mesh& mesh) {
  return partial.empty() ? "no addends" : "addends (" + partial_text(mesh, partial) + ")";
}

}  // namespace

void refuse(const std::string& what) {
  throw InternalError("placements: " + what);
}

SymbolicPlacements::SymbolicPlacements(const Graph& graph, const TaskGraph& tasks,
                                       int64_t micro_batches)
    : graph_(graph), tasks_(tasks), count_(micro_batches), placements_(tasks.registers.size()) {
  Meshes meshes;
  for (const MeshPtr& mesh : tasks.meshes) meshes.push_back({"", mesh});
  if (has_time()) meshes = with_micro_batches(meshes, count_);
  for (const NamedMesh& mesh : meshes) timed_.push_back(mesh.mesh);
}

std::vector<PartialAxis> SymbolicPlacements::without_time(std::vector<PartialAxis> partial) const {
  if (has_time()) std::erase_if(partial, [](const PartialAxis& p) { return p.axis == kTime; });
  return partial;
}

Coordinate SymbolicPlacements::in_time(int micro_batch, const Coordinate& coordinate) const {
  if (!has_time()) return coordinate;
  Coordinate place{std::max(micro_batch, 0)};
  for (int64_t index : coordinate) place.push_back(index);
  return place;
}

DistAttr SymbolicPlacements::declared_dims(const Register& reg) const {
  DistAttr attr{timed_[reg.mesh], {}, {}};
  for (size_t d = 0; d < reg.attr.dims.size(); ++d) {
    DimSharding dim{{}, reg.attr.dims[d].unit, reg.attr.dims[d].windows, reg.attr.dims[d].chunks};
    if (reg.micro_batch.index >= 0 && reg.micro_batch.dim == static_cast<int>(d))
      dim.axes.push_back(kTime);
    for (int axis : reg.attr.dims[d].axes) dim.axes.push_back(with_time(axis));
    attr.dims.push_back(std::move(dim));
  }
  return attr;
}

std::vector<PartialAxis> SymbolicPlacements::declared_partial(const Register& reg) const {
  std::vector<PartialAxis> partial = reg.attr.partial;
  for (PartialAxis& p : partial) p.axis = with_time(p.axis);
  return partial;
}

void SymbolicPlacements::fill(RegisterIndex index, SymbolicPlacement standing) {
  const Register& reg = tasks_.registers[index];
  const Mesh& mesh = *standing.attr.mesh;
  const std::vector<PartialAxis> over_ranks = without_time(standing.attr.partial),
                                 declared = declared_partial(reg);
  if (over_ranks != declared)
    refuse("'" + reg.name + "' holds " + addends_text(over_ranks, mesh) +
           " and is declared to hold " + addends_text(declared, mesh));
  check_time(reg, standing.attr);
  check_chunk(reg, standing.chunk);
  check_type(reg, graph_.type(standing.value));
  if (reg.storage == Register::Storage::kVariable) last_in_variable_[reg.variable] = index;
  placements_[index] = std::move(standing);
}

/// Is a register declared for one micro-batch when it is of one, and for rows or for addends as it
/// is?
void SymbolicPlacements::check_time(const Register& reg, const DistAttr& attr) const {
  const bool declared = reg.micro_batch.index >= 0,
             declared_addends = declared && reg.micro_batch.dim < 0;
  if (declared == uses_time(attr) && declared_addends == is_partial_in_time(attr)) return;
  refuse("'" + reg.name + "' is declared " + (declared ? "for one micro-batch" : "once a step") +
         " and holds " +
         (is_partial_in_time(attr) ? "addends of micro-batches that are not all added"
          : uses_time(attr)        ? "the rows of one micro-batch"
                                   : "what is made once a step"));
}

/// Does every rank have its part of the chunk, as its part of the whole says?
void SymbolicPlacements::check_chunk(const Register& reg, const Chunk& chunk) {
  if (!(reg.chunk == chunk)) refuse("'" + reg.name + "' is declared another chunk than it holds");
  if (chunk.dim < 0) return;
  const bool is_one = chunk.dim < reg.type.shape.size() && chunk.blocks > 0 && chunk.count > 0 &&
                      chunk.index >= 0 && chunk.index < chunk.count;
  if (!is_one) refuse("'" + reg.name + "' is declared a chunk that there is not");
  const DimSharding& dim = reg.attr.dims[chunk.dim];
  const int64_t parts = parts_of_dim(reg.attr, chunk.dim);
  if (!dim.windows.empty() || dim.chunks != 1 || chunk.blocks % parts != 0 ||
      reg.type.shape[chunk.dim] % (chunk.blocks * dim.unit) != 0)
    refuse("'" + reg.name + "' is a chunk of " + std::to_string(chunk.blocks) +
           " blocks, and ranks have other parts: " + to_text(reg.type, reg.attr));
}

/// The extent in time: one micro-batch has its own rows.
void SymbolicPlacements::check_type(const Register& reg, const TensorType& whole) const {
  TensorType expected = whole;
  const MicroBatch& part = reg.micro_batch;
  if (part.index >= static_cast<int>(count_))
    refuse("'" + reg.name + "' is of a micro-batch that there is not");
  if (part.index >= 0 && part.dim >= 0) {
    const Range rows = balanced_part(whole.shape[part.dim], count_, part.index);
    expected.shape[part.dim] = rows.size();
    if (part.begin != rows.begin)
      refuse("'" + reg.name + "' is declared to begin at row " + std::to_string(part.begin) +
             " and micro-batch " + std::to_string(part.index) + " begins at " +
             std::to_string(rows.begin));
  }
  if (reg.chunk.dim >= 0) expected.shape[reg.chunk.dim] /= reg.chunk.count;
  if (reg.type != expected)
    refuse("'" + reg.name + "' is declared " + to_text(reg.type) + " and stands for " +
           to_text(expected));
}

}  // namespace tessera
