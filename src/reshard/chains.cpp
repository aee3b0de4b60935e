#include "reshard/chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

#include "base/error.h"

namespace tessera {
namespace {

/// The axes of each dim: what a chain changes.
using Cut = std::vector<std::vector<int>>;

Cut cut_of(const DistAttr& attr) {
  Cut cut;
  for (const DimSharding& dim : attr.dims) cut.push_back(dim.axes);
  return cut;
}

/// A step of a chain and its price.
struct Step {
  Cut to;
  double seconds = 0;
};

/// Shortest path over the cuts of one tensor.
class ChainSearch {
 public:
  ChainSearch(const TensorType& type, const DistAttr& from, const DistAttr& to,
              const ReshardOptions& options)
      : type_(type),
        from_(from),
        to_(to),
        options_(options),
        limit_(std::max(local_bytes(cut_of(from)), local_bytes(cut_of(to)))) {
    for (int axis = 0; axis < from.mesh->axis_count(); ++axis)
      if (!from.is_partial_on(axis) && size(axis) > 1) free_axes_.push_back(axis);
  }

  std::optional<std::vector<Exchange>> run() {
    const Cut start = cut_of(from_), goal = cut_of(to_);
    known_[start] = {0, start};
    queue_.push({0, start});
    while (!queue_.empty()) {
      const auto [seconds, cut] = queue_.top();
      queue_.pop();
      if (cut == goal) return way_to(goal);
      if (seconds > known_.at(cut).seconds) continue;
      for (const Step& step : steps_from(cut)) offer(cut, seconds + step.seconds, step.to);
    }
    return std::nullopt;
  }

 private:
  struct Known {
    double seconds = 0;
    Cut before;
  };
  using Entry = std::pair<double, Cut>;

  int64_t size(int axis) const { return from_.mesh->shape()[axis]; }

  /// The placement of a cut; units are those of the end that divides the dim.
  DistAttr attr_of(const Cut& cut) const {
    DistAttr attr = from_;
    for (size_t d = 0; d < cut.size(); ++d) {
      const DimSharding& end = from_.dims[d].axes.empty() ? to_.dims[d] : from_.dims[d];
      attr.dims[d] = {cut[d], end.unit};
    }
    if (cut == cut_of(from_)) return from_;
    return cut == cut_of(to_) ? to_ : attr;
  }

  double local_bytes(const Cut& cut) const {
    return static_cast<double>(
        byte_size({type_.dtype, attr_of(cut).largest_shape(type_.shape)}).value());
  }

  static double seconds(const LinkCost& link, double peers, double bytes) {
    return peers * link.latency.value() + bytes / link.bytes_per_second;
  }
  double seconds_on(int axis, double peers, double bytes) const {
    return seconds(options_.on(*from_.mesh, axis), peers, bytes);
  }

  void offer(const Cut& before, double seconds, const Cut& cut) {
    const auto found = known_.find(cut);
    if (found != known_.end() && found->second.seconds <= seconds) return;
    if (local_bytes(cut) > limit_) return;
    known_[cut] = {seconds, before};
    queue_.push({seconds, cut});
  }

  std::vector<Step> steps_from(const Cut& cut) const {
    std::vector<Step> steps;
    const double bytes = local_bytes(cut);
    add_slices(cut, steps);
    for (size_t d = 0; d < cut.size(); ++d) {
      if (cut[d].empty()) continue;
      const int axis = cut[d].back();
      const auto parts = static_cast<double>(size(axis));
      Cut without = cut;
      without[d].pop_back();
      steps.push_back({without, seconds_on(axis, parts - 1, bytes * (parts - 1))});  // all-gather
      for (size_t other = 0; other < cut.size(); ++other) {
        if (other == d) continue;
        Cut moved = without;
        moved[other].push_back(axis);
        steps.push_back(
            {moved, seconds_on(axis, parts - 1, bytes * (parts - 1) / parts)});  // all-to-all
      }
    }
    add_permutes(cut, bytes, steps);
    return steps;
  }

  void add_slices(const Cut& cut, std::vector<Step>& steps) const {
    for (int axis : free_axes_) {
      if (std::any_of(cut.begin(), cut.end(), [&](const auto& axes) {
            return std::find(axes.begin(), axes.end(), axis) != axes.end();
          }))
        continue;
      for (size_t d = 0; d < cut.size(); ++d) {
        steps.push_back({cut, 0});
        steps.back().to[d].push_back(axis);
      }
    }
  }

  /// Axes of equal size take each other's places, used or not.
  void add_permutes(const Cut& cut, double bytes, std::vector<Step>& steps) const {
    std::vector<int> order = free_axes_;
    do {
      const bool fits = std::equal(order.begin(), order.end(), free_axes_.begin(),
                                   [&](int a, int b) { return size(a) == size(b); });
      if (!fits || order == free_axes_) continue;
      Cut renamed = cut;
      for (auto& axes : renamed)
        for (int& axis : axes)
          axis = order[std::find(free_axes_.begin(), free_axes_.end(), axis) - free_axes_.begin()];
      double dearest = 0;
      for (size_t i = 0; i < order.size(); ++i)
        if (order[i] != free_axes_[i]) dearest = std::max(dearest, seconds_on(order[i], 1, bytes));
      if (renamed != cut) steps.push_back({renamed, dearest});
    } while (std::next_permutation(order.begin(), order.end()));
  }

  std::vector<Exchange> way_to(const Cut& goal) const {
    std::vector<Exchange> way;
    for (Cut cut = goal; cut != cut_of(from_); cut = known_.at(cut).before) {
      const DistAttr a = attr_of(known_.at(cut).before), b = attr_of(cut);
      way.push_back({classify(type_.shape, a, b), a, b});
    }
    std::reverse(way.begin(), way.end());
    return way;
  }

  const TensorType& type_;
  const DistAttr& from_;
  const DistAttr& to_;
  const ReshardOptions& options_;
  const double limit_;
  std::vector<int> free_axes_;
  std::map<Cut, Known> known_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

/// A chain cuts plainly. Units matter where a dim is cut at both ends; an axis of size 1 is no cut
/// that a chain could make or undo.
bool can_chain(const DistAttr& from, const DistAttr& to) {
  if (from.has_windows() || to.has_windows() || from.has_chunks() || to.has_chunks()) return false;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    if (!from.dims[d].axes.empty() && !to.dims[d].axes.empty() &&
        from.dims[d].unit != to.dims[d].unit)
      return false;
    for (const DistAttr* end : {&from, &to})
      for (int axis : end->dims[d].axes)
        if (end->mesh->shape()[axis] == 1) return false;
  }
  return from.mesh->axis_count() <= 5;
}

}  // namespace

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

bool on_one_mesh(const DistAttr& a, const DistAttr& b) {
  return a.mesh == b.mesh || *a.mesh == *b.mesh;
}

std::optional<std::vector<Exchange>> find_chain(const TensorType& type, const DistAttr& from,
                                                const DistAttr& to, const ReshardOptions& options) {
  if (!can_chain(from, to)) return std::nullopt;
  return ChainSearch(type, from, to, options).run();
}

}  // namespace tessera
