#include "sharding/reshard/decomposition.h"

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

/// The only dim in which two placements differ, where `divided` has several axes and `whole` none,
/// whose parts are equal; -1: there is none.
int dim_of_axes(const Shape& shape, const DistAttr& divided, const DistAttr& whole) {
  int changed = -1;
  for (int d = 0; d < std::ssize(divided.dims); ++d) {
    if (divided.dims[d] == whole.dims[d]) continue;
    if (changed >= 0) return -1;
    changed = d;
  }
  if (changed < 0) return -1;
  const DimSharding& dim = divided.dims[changed];
  if (dim.axes.size() < 2 || !whole.dims[changed].axes.empty() || !dim.windows.empty() ||
      dim.chunks > 1 || shape[changed] % (dim.unit * divided.blocks(changed)) != 0)
    return -1;
  for (const int axis : dim.axes)
    if (!divided.mesh->weights()[axis].empty()) return -1;
  return changed;
}

/// `divided` without the outermost `count` axes of a dim, of whose parts a rank has all: chunks.
DistAttr without_outermost(DistAttr divided, int dim, size_t count) {
  DimSharding& sharding = divided.dims[dim];
  for (size_t i = 0; i < count; ++i) {
    sharding.chunks *= divided.mesh->shape()[sharding.axes.front()];
    sharding.axes.erase(sharding.axes.begin());
  }
  return divided;
}

bool has_plain_ends(const DistAttr& from, const DistAttr& to) {
  return !from.has_windows() && !to.has_windows() && !from.has_chunks() && !to.has_chunks() &&
         started_axes(from, to).empty();
}

}  // namespace

std::optional<ExchangeSequence> via_reduce_scatter(const TensorType& type, const DistAttr& from,
                                                   const DistAttr& to) {
  std::vector<int> axes;
  for (const PartialAxis& p : resolved_axes(from, to))
    if (!to.is_sharded_on(p.axis)) axes.push_back(p.axis);
  return via_further_division(type, from, to, axes);
}

std::optional<ExchangeSequence> via_outer_gathers(const TensorType& type, const DistAttr& from,
                                                  const DistAttr& to) {
  if (!on_one_mesh(from, to) || from.partial != to.partial) return std::nullopt;
  const int dim = dim_of_axes(type.shape, from, to);
  if (dim < 0) return std::nullopt;
  std::vector<DistAttr> placements = {from};
  for (size_t done = 1; done < from.dims[dim].axes.size(); ++done)
    placements.push_back(without_outermost(from, dim, done));
  placements.push_back(to);
  return sequence_through(type, placements);
}

std::optional<ExchangeSequence> via_inner_scatters(const TensorType& type, const DistAttr& from,
                                                   const DistAttr& to) {
  if (!on_one_mesh(from, to) || !started_axes(from, to).empty()) return std::nullopt;
  const int dim = dim_of_axes(type.shape, to, from);
  if (dim < 0) return std::nullopt;
  const std::vector<int>& axes = to.dims[dim].axes;
  const std::vector<PartialAxis> resolved = resolved_axes(from, to);
  const auto is_resolved = [&](int axis) {
    return std::ranges::any_of(resolved, [&](const PartialAxis& p) { return p.axis == axis; });
  };
  if (resolved.size() != axes.size() || !std::ranges::all_of(axes, is_resolved))
    return std::nullopt;
  std::vector<DistAttr> placements = {from};
  for (size_t left = axes.size() - 1; left > 0; --left) {
    placements.push_back(without_outermost(to, dim, left));
    placements.back().partial = partial_axes(from, to, std::span(axes).first(left));
  }
  placements.push_back(to);
  return sequence_through(type, placements);
}

std::optional<DistAttr> reduced_first(const DistAttr& from, const DistAttr& to) {
  if (!has_plain_ends(from, to)) return std::nullopt;
  // Sums that end in parts come first: the others are then smaller.
  std::vector<int> later;
  for (const PartialAxis& p : resolved_axes(from, to))
    if (!to.is_sharded_on(p.axis)) later.push_back(p.axis);
  if (later.size() == resolved_axes(from, to).size()) later.clear();
  DistAttr middle = from;
  middle.partial = partial_axes(from, to, later);
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const std::vector<int>& wanted = to.dims[d].axes;
    std::vector<int>& axes = middle.dims[d].axes;
    const bool extends =
        axes.size() <= wanted.size() && std::equal(axes.begin(), axes.end(), wanted.begin());
    for (size_t i = extends ? axes.size() : 0; i < wanted.size(); ++i) {
      const int axis = wanted[i];
      if (from.is_sharded_on(axis)) {
        if (extends) break;
        continue;
      }
      if (!extends && !from.is_partial_on(axis)) continue;
      if (axes.empty()) middle.dims[d].unit = to.dims[d].unit;
      axes.push_back(axis);
    }
  }
  if (middle == from || middle == to) return std::nullopt;
  return middle;
}

std::optional<ExchangeSequence> via_one_copy(const TensorType& type, const DistAttr& from,
                                             const DistAttr& to) {
  std::vector<int> axes;
  for (int axis = 0; axis < to.mesh->axis_count(); ++axis)
    if (!to.uses(axis)) axes.push_back(axis);
  return via_further_division(type, from, to, axes);
}

std::vector<ExchangeSequence> via_axis_reduce_scatters(const TensorType& type, const DistAttr& from,
                                                       const DistAttr& to) {
  std::vector<int> axes;
  for (const PartialAxis& p : resolved_axes(from, to)) {
    if (to.is_sharded_on(p.axis)) return {};
    if (to.mesh->shape()[p.axis] > 1) axes.push_back(p.axis);
  }
  if (axes.size() < 2) return {};
  // The innermost axis comes first: its ranks are usually the nearest.
  std::reverse(axes.begin(), axes.end());
  std::vector<ExchangeSequence> sequences;
  do {
    const auto middle = divided_further(type.shape, to, axes);
    if (!middle) break;
    std::vector<DistAttr> placements = {from}, back;
    for (size_t done = 1; done <= axes.size(); ++done) {
      auto placement = without_last(*middle, axes, axes.size() - done);
      if (!placement) return sequences;
      if (done < axes.size()) back.insert(back.begin(), *placement);
      placement->partial = partial_axes(from, to, std::span(axes).subspan(done));
      placements.push_back(std::move(*placement));
    }
    placements.insert(placements.end(), back.begin(), back.end());
    placements.push_back(to);
    sequences.push_back(sequence_through(type, placements));
  } while (std::prev_permutation(axes.begin(), axes.end()));
  return sequences;
}

std::vector<ExchangeSequence> via_ordered_reduce_scatters(const TensorType& type,
                                                          const DistAttr& from,
                                                          const DistAttr& to) {
  std::vector<int> axes;
  for (const PartialAxis& p : resolved_axes(from, to)) {
    if (!to.is_sharded_on(p.axis)) return {};
    if (to.mesh->shape()[p.axis] > 1) axes.push_back(p.axis);
  }
  if (axes.size() < 2) return {};
  std::vector<ExchangeSequence> sequences;
  do {
    std::vector<DistAttr> placements = {to};
    for (size_t left = axes.size() - 1; left > 0; --left) {
      auto placement = without_last(placements.front(), {axes[left]}, 1);
      if (!placement) break;
      placement->partial = partial_axes(from, to, std::span(axes).subspan(left));
      placements.insert(placements.begin(), std::move(*placement));
    }
    if (placements.size() < axes.size()) continue;
    placements.insert(placements.begin(), from);
    sequences.push_back(sequence_through(type, placements));
  } while (std::next_permutation(axes.begin(), axes.end()));
  return sequences;
}

std::vector<DistAttr> reduced_in_parts(const Shape& shape, const DistAttr& from,
                                       const DistAttr& to) {
  if (from.dims == to.dims || !has_plain_ends(from, to)) return {};
  std::vector<int> axes;
  int64_t blocks = 1;
  for (const PartialAxis& p : resolved_axes(from, to)) {
    if (to.is_sharded_on(p.axis)) return {};
    axes.push_back(p.axis);
    blocks *= to.mesh->blocks(p.axis);
  }
  std::vector<DistAttr> list;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] % (from.blocks(d) * blocks) != 0) continue;
    list.push_back(from);
    list.back().partial = to.partial;
    auto& held = list.back().dims[d].axes;
    held.insert(held.end(), axes.begin(), axes.end());
  }
  return list;
}

}  // namespace tessera
