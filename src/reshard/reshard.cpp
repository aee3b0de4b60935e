#include "reshard/reshard.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

/// Below this size every process takes all contributions at once: one round of messages beats the two of reduce-scatter and all-gather.
constexpr int64_t kDirectReduceBytes = 4096;

std::vector<PartialAxis> resolved_axes(const DistAttr& from, const DistAttr& to) {
  std::vector<PartialAxis> axes;
  for (const PartialAxis& p : from.partial)
    if (!to.is_partial_on(p.axis)) axes.push_back(p);
  return axes;
}

/// Axes on which `to` is partial and `from` is not.
std::vector<PartialAxis> started_axes(const DistAttr& from, const DistAttr& to) {
  std::vector<PartialAxis> axes;
  for (const PartialAxis& p : to.partial) {
    if (!from.is_partial_on(p.axis))
      axes.push_back(p);
    else
      ensure(std::find(from.partial.begin(), from.partial.end(), p) != from.partial.end(), "a Partial keeps its reduction");
  }
  return axes;
}

bool shards(const DistAttr& attr, int axis) {
  return attr.uses(axis) && !attr.is_partial_on(axis);
}

/// The dim to cut further by `parts`: the outermost that is cut evenly, so that the pieces are contiguous; else the one of the largest
/// local extent. -1 when none is long enough.
int dim_to_scatter(const Shape& shape, const DistAttr& attr, int64_t parts) {
  int longest = -1;
  int64_t longest_extent = parts - 1;
  for (int d = 0; d < shape.size(); ++d) {
    const Split split = attr.split(d, shape[d]);
    const int64_t extent = split.largest() / split.unit;
    if (extent >= parts && extent % parts == 0) return d;
    if (extent > longest_extent) {
      longest = d;
      longest_extent = extent;
    }
  }
  return longest;
}

/// Like `to`, but with the resolved axes that `to` leaves unused dividing one more dim: where a reduce-scatter ends and an all-gather
/// starts.
std::optional<DistAttr> scattered(const TensorType& type, const DistAttr& from, const DistAttr& to) {
  DistAttr middle = to;
  int64_t parts = 1;
  std::vector<int> axes;
  for (const PartialAxis& p : resolved_axes(from, to)) {
    if (shards(to, p.axis)) continue;
    axes.push_back(p.axis);
    parts *= to.mesh->shape()[p.axis];
  }
  if (axes.empty() || parts == 1) return std::nullopt;
  if (byte_size({type.dtype, to.largest_shape(type.shape)}).value() <= kDirectReduceBytes) return std::nullopt;
  const int dim = dim_to_scatter(type.shape, to, parts);
  if (dim < 0) return std::nullopt;
  auto& dim_axes = middle.dims[static_cast<size_t>(dim)].axes;
  dim_axes.insert(dim_axes.end(), axes.begin(), axes.end());
  return middle;
}

bool is_local(const Shape& shape, const Exchange& exchange) {
  for (Rank receiver : exchange.to.mesh->processes())
    for (const Pull& pull : pulls(shape, exchange, receiver))
      if (pull.sender != receiver) return false;
  return true;
}

/// Does `a` start with `b`, dim by dim? Then a is b divided further.
bool divides_further(const DistAttr& a, const DistAttr& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const auto& longer = a.dims[d].axes;
    const auto& shorter = b.dims[d].axes;
    if (shorter.size() > longer.size() || !std::equal(shorter.begin(), shorter.end(), longer.begin())) return false;
    if (!shorter.empty() && a.dims[d].unit != b.dims[d].unit) return false;
  }
  return true;
}

bool same_mesh(const DistAttr& a, const DistAttr& b) {
  return a.mesh == b.mesh || *a.mesh == *b.mesh;
}

}  // namespace

std::string_view to_text(ReshardKind kind) {
  switch (kind) {
    case ReshardKind::kNone: return "none";
    case ReshardKind::kSlice: return "slice";
    case ReshardKind::kAllGather: return "all-gather";
    case ReshardKind::kReduceScatter: return "reduce-scatter";
    case ReshardKind::kAllReduce: return "all-reduce";
    case ReshardKind::kAllToAll: return "all-to-all";
    case ReshardKind::kMessages: return "messages";
  }
  throw InternalError("unknown kind of reshard");
}

ReshardKind classify(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  if (from == to) return ReshardKind::kNone;
  if (!same_mesh(from, to)) return ReshardKind::kMessages;
  const auto resolved = resolved_axes(from, to);
  if (!resolved.empty()) {
    const bool all_scatter = std::all_of(resolved.begin(), resolved.end(), [&](const PartialAxis& p) { return shards(to, p.axis); });
    DistAttr summed = from;
    std::erase_if(summed.partial, [&](const PartialAxis& p) { return !to.is_partial_on(p.axis); });
    if (summed == to) return ReshardKind::kAllReduce;
    if (all_scatter && divides_further(to, from)) return ReshardKind::kReduceScatter;
    return ReshardKind::kMessages;
  }
  if (is_local(shape, {ReshardKind::kMessages, from, to})) return ReshardKind::kSlice;
  if (divides_further(from, to)) return ReshardKind::kAllGather;
  int changed = 0;
  for (size_t d = 0; d < from.dims.size(); ++d) changed += from.dims[d].axes != to.dims[d].axes;
  return changed == 2 ? ReshardKind::kAllToAll : ReshardKind::kMessages;
}

std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to) {
  if (from == to) return {};
  if (!same_mesh(from, to) && !from.partial.empty()) {
    // Summed at home first: each addend would travel otherwise.
    DistAttr summed = from;
    summed.partial.clear();
    std::vector<Exchange> exchanges = plan_reshard(type, from, summed);
    exchanges.push_back({ReshardKind::kMessages, summed, to});
    return exchanges;
  }
  if (const auto middle = scattered(type, from, to)) {
    return {{classify(type.shape, from, *middle), from, *middle}, {classify(type.shape, *middle, to), *middle, to}};
  }
  return {{classify(type.shape, from, to), from, to}};
}

std::vector<Pull> pulls(const Shape& shape, const Exchange& exchange, Rank receiver) {
  const DistAttr& from = exchange.from;
  const DistAttr& to = exchange.to;
  const auto place = to.mesh->coordinate_of(receiver);
  if (!place) return {};
  for (const PartialAxis& p : started_axes(from, to))
    if ((*place)[p.axis] != 0) return {};
  const bool one_mesh = same_mesh(from, to);
  const Box wanted = to.box(shape, *place);
  const auto resolved = resolved_axes(from, to);
  std::vector<Pull> result;
  // Candidates are one replica of each part: on axes that do not matter to `from`, the sender stands where the receiver stands, so that
  // replicas share the work; from another mesh, the receiver's number chooses.
  for (int index = 0; index < from.mesh->size(); ++index) {
    const Coordinate coordinate = from.mesh->coordinate_at(index);
    bool chosen = true;
    for (int axis = 0; axis < from.mesh->axis_count() && chosen; ++axis) {
      const bool contributes = std::any_of(resolved.begin(), resolved.end(), [&](const PartialAxis& p) { return p.axis == axis; });
      if (shards(from, axis) || contributes) continue;
      const int64_t replica = one_mesh ? (*place)[axis] : receiver % from.mesh->shape()[axis];
      chosen = coordinate[axis] == replica;
    }
    if (!chosen) continue;
    const Box overlap = intersect(wanted, from.box(shape, coordinate));
    if (overlap.empty()) continue;
    bool first = true;
    for (const PartialAxis& p : resolved) first = first && coordinate[p.axis] == 0;
    result.push_back({from.mesh->process_at(coordinate), overlap, first, resolved.empty() ? ReduceOp::kSum : resolved.front().reduce});
  }
  // By box, then by contribution: candidates of one box were found in the order of their coordinates.
  std::stable_sort(result.begin(), result.end(), [](const Pull& a, const Pull& b) {
    for (size_t d = 0; d < a.box.ranges.size(); ++d)
      if (a.box.ranges[d].begin != b.box.ranges[d].begin) return a.box.ranges[d].begin < b.box.ranges[d].begin;
    return false;
  });
  return result;
}

int64_t received_elements(const Shape& shape, const std::vector<Exchange>& exchanges, Rank receiver) {
  int64_t count = 0;
  for (const Exchange& exchange : exchanges)
    for (const Pull& pull : pulls(shape, exchange, receiver))
      if (pull.sender != receiver) count += element_count(pull.box.shape());
  return count;
}

}  // namespace tessera
