#include "reshard/decomposition.h"

#include <algorithm>
#include <span>

namespace tessera {
namespace {

/// The dim to divide further into `parts` of `blocks` equal blocks: the outermost that is divided
/// evenly, so that the pieces are contiguous; else the one of the largest local extent. -1 when
/// none is long enough.
int dim_to_scatter(const Shape& shape, const DistAttr& attr, int64_t parts, int64_t blocks) {
  int longest = -1;
  int64_t longest_extent = parts - 1;
  for (int d = 0; d < shape.size(); ++d) {
    const Split split = attr.split(d, shape[d]);
    if (!split.windows.empty() || split.chunks > 1) continue;
    const int64_t extent = split.largest() / split.unit;
    if (extent >= parts && extent % blocks == 0) return d;
    if (extent > longest_extent) {
      longest = d;
      longest_extent = extent;
    }
  }
  return longest;
}

/// `to` with one dim divided further by `axes`; none when they make no parts, or when no dim is
/// long enough.
std::optional<DistAttr> divided_further(const Shape& shape, const DistAttr& to,
                                        const std::vector<int>& axes) {
  int64_t parts = 1, blocks = 1;
  for (int axis : axes) {
    parts *= to.mesh->shape()[axis];
    blocks *= to.mesh->blocks(axis);
  }
  if (parts == 1) return std::nullopt;
  const int dim = dim_to_scatter(shape, to, parts, blocks);
  if (dim < 0) return std::nullopt;
  DistAttr middle = to;
  auto& dim_axes = middle.dims[dim].axes;
  dim_axes.insert(dim_axes.end(), axes.begin(), axes.end());
  return middle;
}

/// `attr` without the last `count` of `axes`; none when they are not the last axes of dims.
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

/// Those of `axes` that divide `attr`, in the order in which they divide it, dim by dim.
std::vector<int> in_order_of_dims(const DistAttr& attr, const std::vector<int>& axes) {
  std::vector<int> order;
  for (const DimSharding& dim : attr.dims)
    for (int axis : dim.axes)
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) order.push_back(axis);
  return order;
}

/// The partial axes of `to`, and those of `from` that are in `pending`, ascending.
std::vector<PartialAxis> partial_axes(const DistAttr& from, const DistAttr& to,
                                      std::span<const int> pending) {
  std::vector<PartialAxis> partial = to.partial;
  for (const PartialAxis& p : from.partial)
    if (std::find(pending.begin(), pending.end(), p.axis) != pending.end()) partial.push_back(p);
  std::sort(partial.begin(), partial.end(),
            [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
  return partial;
}

/// The exchanges from each placement to the next.
ExchangeSequence sequence_through(const TensorType& type, const std::vector<DistAttr>& placements) {
  ExchangeSequence sequence;
  for (size_t i = 1; i < placements.size(); ++i)
    sequence.push_back(classified(type.shape, placements[i - 1], placements[i]));
  return sequence;
}

/// Through `to` divided further by `axes`.
std::optional<ExchangeSequence> via_further_division(const TensorType& type, const DistAttr& from,
                                                     const DistAttr& to,
                                                     const std::vector<int>& axes) {
  const auto middle = divided_further(type.shape, to, axes);
  if (!middle) return std::nullopt;
  return sequence_through(type, {from, *middle, to});
}

}  // namespace

std::optional<ExchangeSequence> via_reduce_scatter(const TensorType& type, const DistAttr& from,
                                                   const DistAttr& to) {
  std::vector<int> axes;
  for (const PartialAxis& p : resolved_axes(from, to))
    if (!to.is_sharded_on(p.axis)) axes.push_back(p.axis);
  return via_further_division(type, from, to, axes);
}

std::optional<ExchangeSequence> via_one_copy(const TensorType& type, const DistAttr& from,
                                             const DistAttr& to) {
  std::vector<int> axes;
  for (int axis = 0; axis < to.mesh->axis_count(); ++axis)
    if (!to.uses(axis)) axes.push_back(axis);
  return via_further_division(type, from, to, axes);
}

std::optional<ExchangeSequence> via_axis_reduce_scatters(const TensorType& type,
                                                         const DistAttr& from, const DistAttr& to) {
  // The innermost axis comes first: its ranks are the nearest, and only the share of a rank is sent
  // over the other axes.
  std::vector<int> scattered, kept;
  for (const PartialAxis& p : resolved_axes(from, to))
    if (to.mesh->shape()[p.axis] > 1)
      (to.is_sharded_on(p.axis) ? kept : scattered).push_back(p.axis);
  std::reverse(scattered.begin(), scattered.end());
  if (scattered.size() + kept.size() < 2) return std::nullopt;
  if (!kept.empty() && !scattered.empty()) return std::nullopt;
  const auto middle = scattered.empty() ? to : divided_further(type.shape, to, scattered);
  if (!middle) return std::nullopt;
  const std::vector<int> axes = scattered.empty() ? in_order_of_dims(to, kept) : scattered;
  std::vector<DistAttr> placements = {from}, back;
  for (size_t done = 1; done <= axes.size(); ++done) {
    auto placement = without_last(*middle, axes, axes.size() - done);
    if (!placement) return std::nullopt;
    if (done < axes.size()) back.insert(back.begin(), *placement);
    placement->partial = partial_axes(from, to, std::span(axes).subspan(done));
    placements.push_back(std::move(*placement));
  }
  if (!scattered.empty()) {
    placements.insert(placements.end(), back.begin(), back.end());
    placements.push_back(to);
  }
  return sequence_through(type, placements);
}

}  // namespace tessera
