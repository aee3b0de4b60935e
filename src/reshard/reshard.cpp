#include "reshard/reshard.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "reshard/chains.h"

namespace tessera {
namespace {

/// Processes of which a price is the largest.
constexpr int kPricedProcesses = 64;

bool shards(const DistAttr& attr, int axis) {
  return attr.uses(axis) && !attr.is_partial_on(axis);
}

// ---- names ----

/// Does every process hold what it wants? Dim by dim, over the places on the axes that divide it at either end.
bool is_local(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  for (int d = 0; d < shape.size(); ++d) {
    std::set<int> axes(from.dims[static_cast<size_t>(d)].axes.begin(), from.dims[static_cast<size_t>(d)].axes.end());
    axes.insert(to.dims[static_cast<size_t>(d)].axes.begin(), to.dims[static_cast<size_t>(d)].axes.end());
    const Split held = from.split(d, shape[d]), wanted = to.split(d, shape[d]);
    std::vector<Coordinate> places = {Dims::filled(from.mesh->axis_count(), 0)};
    for (int axis : axes) {
      std::vector<Coordinate> more;
      for (const Coordinate& place : places)
        for (int64_t i = 0; i < from.mesh->shape()[axis]; ++i) {
          more.push_back(place);
          more.back()[axis] = i;
        }
      places = std::move(more);
    }
    for (const Coordinate& place : places) {
      const std::vector<Range> own = held.ranges_at(place);
      for (const Range& needed : wanted.ranges_at(place)) {
        const auto has = [&](const Range& range) { return needed.begin >= range.begin && needed.end <= range.end; };
        if (!needed.empty() && std::none_of(own.begin(), own.end(), has)) return false;
      }
    }
  }
  return true;
}

bool has_equal_windows(const DistAttr& a, const DistAttr& b, size_t dim) {
  return a.dims[dim].windows == b.dims[dim].windows;
}

/// Do the same axes divide every dim, and only windows differ?
bool only_windows_differ(const DistAttr& from, const DistAttr& to) {
  for (size_t d = 0; d < from.dims.size(); ++d)
    if (from.dims[d].axes != to.dims[d].axes) return false;
  return from.has_windows() || to.has_windows();
}

/// Does `a` start with `b`, dim by dim? Then a is b divided further.
bool divides_further(const DistAttr& a, const DistAttr& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const auto& longer = a.dims[d].axes;
    const auto& shorter = b.dims[d].axes;
    if (shorter.size() > longer.size() || !std::equal(shorter.begin(), shorter.end(), longer.begin())) return false;
    if (!shorter.empty() && a.dims[d].unit != b.dims[d].unit) return false;
    if (!shorter.empty() && a.dims[d].chunks != b.dims[d].chunks) return false;
    const bool windowed = !a.dims[d].windows.empty() || (!shorter.empty() && !b.dims[d].windows.empty());
    if (windowed && !(a.dims[d] == b.dims[d])) return false;
  }
  return true;
}

/// Do the two cut every dim into the same parts, by other axes of the same sizes? Then each part wanted is one that someone holds.
bool has_the_same_parts(const DistAttr& from, const DistAttr& to) {
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const auto& a = from.dims[d];
    const auto& b = to.dims[d];
    const auto size = [&](int axis) { return from.mesh->shape()[axis]; };
    if (!std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(), [&](int x, int y) { return size(x) == size(y); }))
      return false;
    if (!a.axes.empty() && (a.unit != b.unit || a.chunks != b.chunks || !has_equal_windows(from, to, d))) return false;
  }
  return true;
}

/// Do axes go from the end of one dim to the end of one other, and nothing else changes?
bool moves_between_two_dims(const DistAttr& from, const DistAttr& to) {
  if (from.has_windows() || to.has_windows() || from.has_chunks() || to.has_chunks()) return false;
  std::vector<size_t> changed;
  for (size_t d = 0; d < from.dims.size(); ++d)
    if (from.dims[d].axes != to.dims[d].axes) changed.push_back(d);
  if (changed.size() != 2) return false;
  for (const auto& [loser, winner] : {std::pair{changed[0], changed[1]}, std::pair{changed[1], changed[0]}}) {
    const auto &long_from = from.dims[loser].axes, &short_to = to.dims[loser].axes;
    const auto &short_from = from.dims[winner].axes, &long_to = to.dims[winner].axes;
    if (short_to.size() > long_from.size() || short_from.size() > long_to.size()) continue;
    if (std::equal(short_to.begin(), short_to.end(), long_from.begin()) &&
        std::equal(short_from.begin(), short_from.end(), long_to.begin()))
      return true;
  }
  return false;
}

// ---- ways ----

using Way = std::vector<Exchange>;

Exchange named(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  return {classify(shape, from, to), from, to};
}

/// The dim to cut further by `parts`: the outermost that is cut evenly, so that the pieces are contiguous; else the one of the largest
/// local extent. -1 when none is long enough.
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
std::optional<DistAttr> divided_further(const Shape& shape, const DistAttr& to, const std::vector<int>& axes) {
  int64_t parts = 1;
  for (int axis : axes) parts *= to.mesh->shape()[axis];
  if (parts == 1) return std::nullopt;
  const int dim = dim_to_scatter(shape, to, parts);
  if (dim < 0) return std::nullopt;
  DistAttr middle = to;
  auto& dim_axes = middle.dims[static_cast<size_t>(dim)].axes;
  dim_axes.insert(dim_axes.end(), axes.begin(), axes.end());
  return middle;
}

/// Reduce-scatter over the axes that `to` leaves unused, then all-gather.
std::optional<Way> through_scattered_sums(const TensorType& type, const DistAttr& from, const DistAttr& to) {
  std::vector<int> axes;
  for (const PartialAxis& p : resolved_axes(from, to))
    if (!shards(to, p.axis)) axes.push_back(p.axis);
  const auto middle = divided_further(type.shape, to, axes);
  if (!middle) return std::nullopt;
  return Way{named(type.shape, from, *middle), named(type.shape, *middle, to)};
}

/// Onto another mesh: each piece travels once, and the copies are made there.
std::optional<Way> through_one_copy(const TensorType& type, const DistAttr& from, const DistAttr& to) {
  std::vector<int> axes;
  for (int axis = 0; axis < to.mesh->axis_count(); ++axis)
    if (!to.uses(axis)) axes.push_back(axis);
  const auto middle = divided_further(type.shape, to, axes);
  if (!middle) return std::nullopt;
  return Way{named(type.shape, from, *middle), named(type.shape, *middle, to)};
}

/// The ways that there are: the direct one first.
std::vector<Way> ways(const TensorType& type, const DistAttr& from, const DistAttr& to, const LinkCost& link) {
  std::vector<Way> list = {{named(type.shape, from, to)}};
  const auto add = [&](std::optional<Way> way) {
    if (way) list.push_back(std::move(*way));
  };
  if (!on_one_mesh(from, to)) {
    add(through_one_copy(type, from, to));
  } else if (!resolved_axes(from, to).empty()) {
    add(through_scattered_sums(type, from, to));
  } else if (started_axes(from, to).empty() && list.front().front().kind == ReshardKind::kMessages) {
    add(find_chain(type, from, to, link));
  }
  return list;
}

double seconds_of(const TensorType& type, const Way& way, const LinkCost& link) {
  double sum = 0;
  for (const Exchange& exchange : way) sum += price(type, exchange, link).value();
  return sum;
}

/// Is an axis partial in both, and by another reduction?
bool changes_a_reduction(const DistAttr& from, const DistAttr& to) {
  if (!on_one_mesh(from, to)) return false;
  return std::any_of(from.partial.begin(), from.partial.end(), [&](const PartialAxis& p) {
    return to.is_partial_on(p.axis) && std::find(to.partial.begin(), to.partial.end(), p) == to.partial.end();
  });
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
  if (!resolved.empty()) {
    const bool all_scatter = std::all_of(resolved.begin(), resolved.end(), [&](const PartialAxis& p) { return shards(to, p.axis); });
    DistAttr summed = from;
    std::erase_if(summed.partial, [&](const PartialAxis& p) { return !to.is_partial_on(p.axis); });
    if (summed == to) return ReshardKind::kAllReduce;
    if (all_scatter && divides_further(to, from)) return ReshardKind::kReduceScatter;
    return ReshardKind::kMessages;
  }
  if (is_local(shape, from, to)) return ReshardKind::kSlice;
  if (divides_further(from, to)) return ReshardKind::kAllGather;
  if (only_windows_differ(from, to)) return ReshardKind::kHalo;
  if (has_the_same_parts(from, to)) return ReshardKind::kPermute;
  return moves_between_two_dims(from, to) ? ReshardKind::kAllToAll : ReshardKind::kMessages;
}

Seconds price(const TensorType& type, const Exchange& exchange, const LinkCost& link) {
  if (exchange.kind == ReshardKind::kNone || exchange.kind == ReshardKind::kSlice) return Seconds(0);
  const std::vector<Rank>& receivers = exchange.to.mesh->processes();
  const size_t stride = (receivers.size() + kPricedProcesses - 1) / kPricedProcesses;
  int64_t most_received = 0;
  size_t most_peers = 0;
  std::map<Rank, int64_t> sent;
  for (size_t i = 0; i < receivers.size(); i += stride) {
    int64_t received = 0;
    std::set<Rank> peers;
    for (const Pull& pull : pulls(type.shape, exchange, receivers[i])) {
      if (pull.sender == receivers[i]) continue;
      const int64_t bytes = element_count(pull.box.shape()) * size_of(type.dtype);
      received += bytes;
      sent[pull.sender] += bytes;
      peers.insert(pull.sender);
    }
    most_received = std::max(most_received, received);
    most_peers = std::max(most_peers, peers.size());
  }
  for (const auto& [sender, bytes] : sent) most_received = std::max(most_received, bytes);
  return Seconds(static_cast<double>(most_peers) * link.latency.value() + static_cast<double>(most_received) / link.bytes_per_second);
}

std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to, const LinkCost& link) {
  if (from == to) return {};
  if ((!on_one_mesh(from, to) && !from.partial.empty()) || changes_a_reduction(from, to)) {
    // Put together at home first: each addend would travel otherwise, and those of a maximum are none of a sum.
    DistAttr summed = from;
    summed.partial.clear();
    std::vector<Exchange> exchanges = plan_reshard(type, from, summed, link);
    for (Exchange& exchange : plan_reshard(type, summed, to, link)) exchanges.push_back(std::move(exchange));
    return exchanges;
  }
  std::vector<Way> list = ways(type, from, to, link);
  if (list.size() == 1) return list.front();
  size_t best = 0;
  double best_seconds = seconds_of(type, list[0], link);
  for (size_t i = 1; i < list.size(); ++i) {
    const double seconds = seconds_of(type, list[i], link);
    if (seconds >= best_seconds) continue;
    best = i;
    best_seconds = seconds;
  }
  return list[best];
}

}  // namespace tessera
