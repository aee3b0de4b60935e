#include "reshard/reshard.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "reshard/chains.h"
#include "reshard/decomposition.h"

namespace tessera {
namespace {

/// Ranks of which a price is the largest.
constexpr int kPricedRanks = 64;

bool shards(const DistAttr& attr, int axis) {
  return attr.uses(axis) && !attr.is_partial_on(axis);
}

// ---- names ----

/// Does every rank hold what it wants? Dim by dim, over the places on the axes that divide it at
/// either end.
bool is_local(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  for (int d = 0; d < shape.size(); ++d) {
    std::set<int> axes(from.dims[d].axes.begin(), from.dims[d].axes.end());
    axes.insert(to.dims[d].axes.begin(), to.dims[d].axes.end());
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
        const auto has = [&](const Range& range) {
          return needed.begin >= range.begin && needed.end <= range.end;
        };
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

/// Do the two cut every dim into the same parts, by other axes of the same sizes? Then each part
/// wanted is one that someone holds.
bool has_the_same_parts(const DistAttr& from, const DistAttr& to) {
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const auto& a = from.dims[d];
    const auto& b = to.dims[d];
    const auto size = [&](int axis) { return from.mesh->shape()[axis]; };
    if (!std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                    [&](int x, int y) { return size(x) == size(y); }))
      return false;
    if (!a.axes.empty() &&
        (a.unit != b.unit || a.chunks != b.chunks || !has_equal_windows(from, to, d)))
      return false;
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

// ---- ways ----

Exchange direct(const TensorType& type, const DistAttr& from, const DistAttr& to) {
  return {classify(type.shape, from, to), from, to};
}

/// The ways that there are: the direct one first.
std::vector<Way> ways(const TensorType& type, const DistAttr& from, const DistAttr& to,
                      const ReshardOptions& options) {
  std::vector<Way> list = {{direct(type, from, to)}};
  const auto add = [&](std::optional<Way> way) {
    if (way) list.push_back(std::move(*way));
  };
  if (!on_one_mesh(from, to)) {
    add(through_one_copy(type, from, to));
  } else if (!resolved_axes(from, to).empty()) {
    if (options.all_reduce == AllReduceAlgorithm::kOneShot) return list;
    if (options.all_reduce != AllReduceAlgorithm::kHierarchical)
      add(through_scattered_sums(type, from, to));
    if (options.all_reduce != AllReduceAlgorithm::kReduceScatterAllGather)
      add(through_sums_by_axis(type, from, to));
    if (options.all_reduce == AllReduceAlgorithm::kHierarchical && list.size() == 1)
      add(through_scattered_sums(type, from, to));
    if (options.all_reduce != AllReduceAlgorithm::kAuto && list.size() > 1)
      list.erase(list.begin());
  } else if (started_axes(from, to).empty() &&
             list.front().front().kind == ReshardKind::kMessages) {
    add(find_chain(type, from, to, options));
  }
  return list;
}

double seconds_of(const TensorType& type, const Way& way, const ReshardOptions& options) {
  double sum = 0;
  for (const Exchange& exchange : way) sum += price(type, exchange, options).value();
  return sum;
}

/// Between the places of two ranks on one mesh, or of two meshes.
const LinkCost& link_between(const Exchange& exchange, Rank sender, Rank receiver,
                             const ReshardOptions& options) {
  const LinkCost* dearest = &options.link;
  if (options.axes.empty() || !on_one_mesh(exchange.from, exchange.to)) return *dearest;
  const Mesh& mesh = *exchange.to.mesh;
  const Coordinate a = *mesh.coordinate_of(sender), b = *mesh.coordinate_of(receiver);
  bool found = false;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (a[axis] == b[axis]) continue;
    const LinkCost& link = options.on(mesh, axis);
    if (!found || link.bytes_per_second < dearest->bytes_per_second) dearest = &link;
    found = true;
  }
  return *dearest;
}

/// Is an axis partial in both, and by another reduction?
bool changes_a_reduction(const DistAttr& from, const DistAttr& to) {
  if (!on_one_mesh(from, to)) return false;
  return std::any_of(from.partial.begin(), from.partial.end(), [&](const PartialAxis& p) {
    return to.is_partial_on(p.axis) &&
           std::find(to.partial.begin(), to.partial.end(), p) == to.partial.end();
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
    const bool all_scatter = std::all_of(resolved.begin(), resolved.end(),
                                         [&](const PartialAxis& p) { return shards(to, p.axis); });
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

std::string_view to_text(AllReduceAlgorithm form) {
  switch (form) {
    case AllReduceAlgorithm::kAuto: return "auto";
    case AllReduceAlgorithm::kOneShot: return "one-shot";
    case AllReduceAlgorithm::kReduceScatterAllGather: return "reduce-scatter-all-gather";
    case AllReduceAlgorithm::kHierarchical: return "hierarchical";
  }
  throw InternalError("unknown form of sums");
}

const LinkCost& ReshardOptions::on(const Mesh& mesh, int axis) const {
  const auto found = axes.find(mesh.axes()[axis]);
  return found == axes.end() ? link : found->second;
}

Seconds price(const TensorType& type, const Exchange& exchange, const ReshardOptions& options) {
  if (exchange.kind == ReshardKind::kNone || exchange.kind == ReshardKind::kSlice)
    return Seconds(0);
  const std::vector<Rank>& receivers = exchange.to.mesh->ranks();
  const size_t stride = (receivers.size() + kPricedRanks - 1) / kPricedRanks;
  double most_latency = 0, most_transfer = 0;
  std::map<Rank, double> sending;
  for (size_t i = 0; i < receivers.size(); i += stride) {
    double receiving = 0, latency = 0;
    std::set<Rank> peers;
    for (const Pull& pull : pulls(type.shape, exchange, receivers[i])) {
      if (pull.sender == receivers[i]) continue;
      const LinkCost& link = link_between(exchange, pull.sender, receivers[i], options);
      const double seconds =
          static_cast<double>(element_count(pull.box.shape()) * size_of(type.dtype)) /
          link.bytes_per_second;
      receiving += seconds;
      sending[pull.sender] += seconds;
      if (peers.insert(pull.sender).second) latency += link.latency.value();
    }
    most_transfer = std::max(most_transfer, receiving);
    most_latency = std::max(most_latency, latency);
  }
  for (const auto& [sender, seconds] : sending) most_transfer = std::max(most_transfer, seconds);
  return Seconds(most_latency + most_transfer);
}

std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to,
                                   const ReshardOptions& options) {
  if (from == to) return {};
  if ((!on_one_mesh(from, to) && !from.partial.empty()) || changes_a_reduction(from, to)) {
    // Put together at home first: each addend would travel otherwise, and those of a maximum are
    // none of a sum.
    DistAttr summed = from;
    summed.partial.clear();
    std::vector<Exchange> exchanges = plan_reshard(type, from, summed, options);
    for (Exchange& exchange : plan_reshard(type, summed, to, options))
      exchanges.push_back(std::move(exchange));
    return exchanges;
  }
  std::vector<Way> list = ways(type, from, to, options);
  if (list.size() == 1) return list.front();
  size_t best = 0;
  double best_seconds = seconds_of(type, list[0], options);
  for (size_t i = 1; i < list.size(); ++i) {
    const double seconds = seconds_of(type, list[i], options);
    if (seconds >= best_seconds) continue;
    best = i;
    best_seconds = seconds;
  }
  return list[best];
}

}  // namespace tessera
