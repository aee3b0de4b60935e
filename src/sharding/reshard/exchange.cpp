#include "sharding/reshard/exchange.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace tessera {
namespace {

/// The coordinates of a mesh that are 0 on all axes but `axes`.
std::vector<Coordinate> coordinates_on(const Mesh& mesh, const std::set<int>& axes) {
  std::vector<Coordinate> coordinates = {Dims::filled(mesh.axis_count(), 0)};
  for (int axis : axes) {
    std::vector<Coordinate> more;
    for (const Coordinate& coordinate : coordinates)
      for (int64_t i = 0; i < mesh.shape()[axis]; ++i) {
        more.push_back(coordinate);
        more.back()[axis] = i;
      }
    coordinates = std::move(more);
  }
  return coordinates;
}

/// Whether every rank holds what it wants: dim by dim, at each coordinate on the axes that divide
/// the dim at either end.
bool is_local(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  for (int d = 0; d < shape.size(); ++d) {
    std::set<int> axes(from.dims[d].axes.begin(), from.dims[d].axes.end());
    axes.insert(to.dims[d].axes.begin(), to.dims[d].axes.end());
    const Split held = from.split(d, shape[d]), wanted = to.split(d, shape[d]);
    for (const Coordinate& coordinate : coordinates_on(*from.mesh, axes)) {
      const std::vector<Range> own = held.ranges_at(coordinate);
      for (const Range& needed : wanted.ranges_at(coordinate)) {
        const auto contains_it = [&](const Range& range) {
          return needed.begin >= range.begin && needed.end <= range.end;
        };
        if (!needed.empty() && std::none_of(own.begin(), own.end(), contains_it)) return false;
      }
    }
  }
  return true;
}

bool has_equal_windows(const DistAttr& a, const DistAttr& b, size_t dim) {
  return a.dims[dim].windows == b.dims[dim].windows;
}

/// Whether the same axes divide every dim, and only windows differ.
bool only_windows_differ(const DistAttr& from, const DistAttr& to) {
  for (size_t d = 0; d < from.dims.size(); ++d)
    if (from.dims[d].axes != to.dims[d].axes) return false;
  return from.has_windows() || to.has_windows();
}

/// Does `a` divide a dim by more outer axes than `b`, which has a chunk for each of their parts?
/// Then `a` divides the parts of `b` further, too: [@o@i] those of [@i/2] where o has two parts.
bool divides_chunks(const DistAttr& a, const DistAttr& b, size_t dim) {
  const DimSharding &more = a.dims[dim], &less = b.dims[dim];
  if (less.axes.empty() || less.axes.size() >= more.axes.size() || less.chunks == 1 ||
      more.unit != less.unit || !more.windows.empty() || !less.windows.empty())
    return false;
  const auto outer = static_cast<std::ptrdiff_t>(more.axes.size() - less.axes.size());
  int64_t chunks = more.chunks;
  for (std::ptrdiff_t i = 0; i < outer; ++i) chunks *= a.mesh->shape()[more.axes[i]];
  return chunks == less.chunks &&
         std::equal(less.axes.begin(), less.axes.end(), more.axes.begin() + outer);
}

/// Whether the axes of `a` begin with those of `b`, dim by dim: then `a` divides the parts of `b`
/// further. Or `b` has chunks for the first ones.
bool divides_further(const DistAttr& a, const DistAttr& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const auto& longer = a.dims[d].axes;
    const auto& shorter = b.dims[d].axes;
    if (divides_chunks(a, b, d)) continue;
    if (shorter.size() > longer.size() ||
        !std::equal(shorter.begin(), shorter.end(), longer.begin()))
      return false;
    if (!shorter.empty() && a.dims[d].unit != b.dims[d].unit) return false;
    if (!shorter.empty() && a.dims[d].chunks != b.dims[d].chunks) return false;
    const bool windowed =
        !a.dims[d].windows.empty() || (!shorter.empty() && !b.dims[d].windows.empty());
    if (windowed && !(a.dims[d] == b.dims[d])) return false;
  }
  return true;
}

/// Whether both divide every dim into the same parts, by other axes of the same sizes and weights:
/// then one rank holds exactly what another wants.
bool has_the_same_parts(const DistAttr& from, const DistAttr& to) {
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const auto& a = from.dims[d];
    const auto& b = to.dims[d];
    if (!std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                    [&](int x, int y) { return from.mesh->divide_alike(x, y); }))
      return false;
    if (!a.axes.empty() &&
        (a.unit != b.unit || a.chunks != b.chunks || !has_equal_windows(from, to, d)))
      return false;
  }
  return true;
}

/// Whether axes move from the end of one dim to the end of one other, and nothing else changes.
bool moves_between_two_dims(const DistAttr& from, const DistAttr& to) {
  if (from.has_windows() || to.has_windows() || from.has_chunks() || to.has_chunks()) return false;
  std::vector<size_t> changed;
  for (size_t d = 0; d < from.dims.size(); ++d)
    if (from.dims[d].axes != to.dims[d].axes) changed.push_back(d);
  if (changed.size() != 2) return false;
  for (const auto& [loser, winner] :
       {std::pair{changed[0], changed[1]}, std::pair{changed[1], changed[0]}}) {
    const auto &long_from = from.dims[loser].axes, &short_to = to.dims[loser].axes;
    const auto &short_from = from.dims[winner].axes, &long_to = to.dims[winner].axes;
    if (short_to.size() > long_from.size() || short_from.size() > long_to.size()) continue;
    if (std::equal(short_to.begin(), short_to.end(), long_from.begin()) &&
        std::equal(short_from.begin(), short_from.end(), long_to.begin()))
      return true;
  }
  return false;
}

/// The kind of an exchange that resolves the partial axes `resolved`.
ReshardKind classify_reduction(const DistAttr& from, const DistAttr& to,
                               const std::vector<PartialAxis>& resolved) {
  DistAttr reduced = from;
  erase_if(reduced.partial, [&](const PartialAxis& p) { return !to.is_partial_on(p.axis); });
  if (reduced == to) return ReshardKind::kAllReduce;
  const bool all_scatter = std::all_of(resolved.begin(), resolved.end(), [&](const PartialAxis& p) {
    return to.is_sharded_on(p.axis);
  });
  if (all_scatter && divides_further(to, from)) return ReshardKind::kReduceScatter;
  return ReshardKind::kMessages;
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
    case ReshardKind::kPermute: return "permute";
    case ReshardKind::kHalo: return "halo";
    case ReshardKind::kMessages: return "messages";
  }
  throw InternalError("unknown kind of reshard");
}

ReshardKind classify(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  if (from == to) return ReshardKind::kNone;
  if (!on_one_mesh(from, to)) return ReshardKind::kMessages;
  const auto resolved = resolved_axes(from, to);
  if (!resolved.empty()) return classify_reduction(from, to, resolved);
  if (is_local(shape, from, to)) return ReshardKind::kSlice;
  if (divides_further(from, to)) return ReshardKind::kAllGather;
  if (only_windows_differ(from, to)) return ReshardKind::kHalo;
  if (has_the_same_parts(from, to)) return ReshardKind::kPermute;
  return moves_between_two_dims(from, to) ? ReshardKind::kAllToAll : ReshardKind::kMessages;
}

Exchange classified(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  return {classify(shape, from, to), from, to};
}

std::vector<PartialAxis> resolved_axes(const DistAttr& from, const DistAttr& to) {
  std::vector<PartialAxis> axes;
  for (const PartialAxis& p : from.partial)
    if (!to.is_partial_on(p.axis)) axes.push_back(p);
  return axes;
}

std::vector<PartialAxis> started_axes(const DistAttr& from, const DistAttr& to) {
  std::vector<PartialAxis> axes;
  for (const PartialAxis& p : to.partial) {
    if (!from.is_partial_on(p.axis))
      axes.push_back(p);
    else
      ensure(std::find(from.partial.begin(), from.partial.end(), p) != from.partial.end(),
             "a Partial keeps its reduction");
  }
  return axes;
}

std::vector<std::string> changed_axes(const Exchange& exchange) {
  if (!on_one_mesh(exchange.from, exchange.to)) return {};
  const std::vector<Placement> from = exchange.from.placements(), to = exchange.to.placements();
  std::vector<std::string> names;
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (!(from[axis] == to[axis])) names.push_back(exchange.from.mesh->axes()[axis]);
  return names;
}

bool on_one_mesh(const DistAttr& a, const DistAttr& b) {
  return a.mesh == b.mesh || *a.mesh == *b.mesh;
}

}  // namespace tessera
