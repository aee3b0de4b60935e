#include "reshard/decomposition.h"

#include <algorithm>

#include "reshard/chains.h"

namespace tessera {
namespace {

bool shards(const DistAttr& attr, int axis) {
  return attr.uses(axis) && !attr.is_partial_on(axis);
}

Exchange named(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  return {classify(shape, from, to), from, to};
}

/// The dim to cut further by `parts`: the outermost that is cut evenly, so that the pieces are
/// contiguous; else the one of the largest local extent. -1 when none is long enough.
int dim_to_scatter(const Shape& shape, const DistAttr& attr, int64_t parts) {
  int longest = -1;
  int64_t longest_extent = parts - 1;
  for (int d = 0; d < shape.size(); ++d) {
    const Split split = attr.split(d, shape[d]);
    if (!split.windows.empty() || split.chunks > 1) continue;
    const int64_t extent = split.largest() / split.unit;
    if (extent >= parts && extent % parts == 0) return d;
    if (extent > longest_extent) {
      longest = d;
      longest_extent = extent;
    }
  }
  return longest;
}

/// Like `to`, with `axes` dividing one dim more.
std::optional<DistAttr> divided_further(const Shape& shape, const DistAttr& to,
                                        const std::vector<int>& axes) {
  int64_t parts = 1;
  for (int axis : axes) parts *= to.mesh->shape()[axis];
  if (parts == 1) return std::nullopt;
  const int dim = dim_to_scatter(shape, to, parts);
  if (dim < 0) return std::nullopt;
  DistAttr middle = to;
  auto& dim_axes = middle.dims[dim].axes;
  dim_axes.insert(dim_axes.end(), axes.begin(), axes.end());
  return middle;
}

/// `attr` with the last `count` of `axes` taken away again; none when they do not end its dims.
std::optional<DistAttr> without_last(DistAttr attr, const std::vector<int>& axes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const int axis = axes[axes.size() - 1 - i];
    const auto ends_with_it = [axis](const DimSharding& dim) {
      return !dim.axes.empty() && dim.axes.back() == axis;
    };
    const auto dim = std::find_if(attr.dims.begin(), attr.dims.end(), ends_with_it);
    if (dim == attr.dims.end()) return std::nullopt;
    dim->axes.pop_back();
  }
  return attr;
}

/// Those of `axes` that divide `attr`, dim by dim.
std::vector<int> as_they_divide(const DistAttr& attr, const std::vector<int>& axes) {
  std::vector<int> order;
  for (const DimSharding& dim : attr.dims)
    for (int axis : dim.axes)
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) order.push_back(axis);
  return order;
}

/// One after the other, each from where the last ended.
Way way_through(const TensorType& type, const std::vector<DistAttr>& places) {
  Way way;
  for (size_t i = 1; i < places.size(); ++i)
    way.push_back(named(type.shape, places[i - 1], places[i]));
  return way;
}

}  // namespace

std::optional<Way> through_scattered_sums(const TensorType& type, const DistAttr& from,
                                          const DistAttr& to) {
  std::vector<int> axes;
  for (const PartialAxis& p : resolved_axes(from, to))
    if (!shards(to, p.axis)) axes.push_back(p.axis);
  const auto middle = divided_further(type.shape, to, axes);
  if (!middle) return std::nullopt;
  return Way{named(type.shape, from, *middle), named(type.shape, *middle, to)};
}

std::optional<Way> through_one_copy(const TensorType& type, const DistAttr& from,
                                    const DistAttr& to) {
  std::vector<int> axes;
  for (int axis = 0; axis < to.mesh->axis_count(); ++axis)
    if (!to.uses(axis)) axes.push_back(axis);
  const auto middle = divided_further(type.shape, to, axes);
  if (!middle) return std::nullopt;
  return Way{named(type.shape, from, *middle), named(type.shape, *middle, to)};
}

std::optional<Way> through_sums_by_axis(const TensorType& type, const DistAttr& from,
                                        const DistAttr& to) {
  // The innermost axis first: its ranks are the nearest, and what goes over the others is its
  // share.
  std::vector<int> scattered, kept;
  for (const PartialAxis& p : resolved_axes(from, to))
    if (to.mesh->shape()[p.axis] > 1) (shards(to, p.axis) ? kept : scattered).push_back(p.axis);
  std::reverse(scattered.begin(), scattered.end());
  if (scattered.size() + kept.size() < 2) return std::nullopt;
  if (!kept.empty() && !scattered.empty()) return std::nullopt;
  const auto middle = scattered.empty() ? to : divided_further(type.shape, to, scattered);
  if (!middle) return std::nullopt;
  const std::vector<int> axes = scattered.empty() ? as_they_divide(to, kept) : scattered;
  std::vector<DistAttr> places = {from}, back;
  for (size_t done = 1; done <= axes.size(); ++done) {
    auto place = without_last(*middle, axes, axes.size() - done);
    if (!place) return std::nullopt;
    if (done < axes.size()) back.insert(back.begin(), *place);
    place->partial = to.partial;
    for (const PartialAxis& p : from.partial)
      if (std::find(axes.begin() + static_cast<std::ptrdiff_t>(done), axes.end(), p.axis) !=
          axes.end())
        place->partial.push_back(p);
    std::sort(place->partial.begin(), place->partial.end(),
              [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
    places.push_back(std::move(*place));
  }
  if (!scattered.empty()) {
    places.insert(places.end(), back.begin(), back.end());
    places.push_back(to);
  }
  return way_through(type, places);
}

}  // namespace tessera
