#include "sharding/reshard/internal/chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

namespace tessera {
namespace {

/// By dim, the axes that divide it: what a chain changes.
using DimAxes = std::vector<std::vector<int>>;

DimAxes axes_of(const DistAttr& attr) {
  DimAxes axes;
  for (const DimSharding& dim : attr.dims) axes.push_back(dim.axes);
  return axes;
}

/// One collective of a chain, with its time.
struct Step {
  DimAxes to;
  double seconds = 0;
};

/// The shortest path over the divisions of one tensor.
class ChainSearch {
 public:
  ChainSearch(const TensorType& type, const DistAttr& from, const DistAttr& to,
              const ReshardOptions& options)
      : type_(type),
        from_(from),
        to_(to),
        options_(options),
        limit_(std::max(local_bytes(axes_of(from)), local_bytes(axes_of(to)))) {
    for (int axis = 0; axis < from.mesh->axis_count(); ++axis)
      if (!from.is_partial_on(axis) && size(axis) > 1) free_axes_.push_back(axis);
  }

  std::optional<std::vector<Exchange>> run() {
    const DimAxes start = axes_of(from_), goal = axes_of(to_);
    known_[start] = {0, start};
    queue_.push({0, start});
    while (!queue_.empty()) {
      const auto [seconds, axes] = queue_.top();
      queue_.pop();
      if (axes == goal) return path_to(goal);
      if (seconds > known_.at(axes).seconds) continue;
      for (const Step& step : steps_from(axes)) relax(axes, seconds + step.seconds, step.to);
    }
    return std::nullopt;
  }

 private:
  struct Known {
    double seconds = 0;
    DimAxes before;
  };
  using Entry = std::pair<double, DimAxes>;

  int64_t size(int axis) const { return from_.mesh->shape()[axis]; }

  /// The placement with these axes; units are those of the end that divides the dim.
  DistAttr attr_of(const DimAxes& dims) const {
    DistAttr attr = from_;
    for (size_t d = 0; d < dims.size(); ++d) {
      const DimSharding& end = from_.dims[d].axes.empty() ? to_.dims[d] : from_.dims[d];
      attr.dims[d] = {dims[d], end.unit};
    }
    if (dims == axes_of(from_)) return from_;
    return dims == axes_of(to_) ? to_ : attr;
  }

  double local_bytes(const DimAxes& dims) const {
    return static_cast<double>(
        byte_size({type_.dtype, attr_of(dims).largest_shape(type_.shape)}).value());
  }

  static double seconds(const LinkCost& link, double peers, double bytes) {
    return link.start.value() + peers * link.latency.value() + bytes / link.bytes_per_second;
  }
  double seconds_on(int axis, double peers, double bytes) const {
    return seconds(options_.links.on(from_.mesh->axes()[axis]), peers, bytes);
  }

  /// Keeps the path to `axes` by way of `before` when it is the shortest so far.
  void relax(const DimAxes& before, double seconds, const DimAxes& axes) {
    const auto found = known_.find(axes);
    if (found != known_.end() && found->second.seconds <= seconds) return;
    if (local_bytes(axes) > limit_) return;
    known_[axes] = {seconds, before};
    queue_.push({seconds, axes});
  }

  std::vector<Step> steps_from(const DimAxes& dims) const {
    std::vector<Step> steps;
    const double bytes = local_bytes(dims);
    add_slices(dims, steps);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty()) continue;
      const int axis = dims[d].back();
      const auto parts = static_cast<double>(size(axis));
      DimAxes without = dims;
      without[d].pop_back();
      steps.push_back({without, seconds_on(axis, parts - 1, bytes * (parts - 1))});  // all-gather
      for (size_t other = 0; other < dims.size(); ++other) {
        if (other == d) continue;
        DimAxes moved = without;
        moved[other].push_back(axis);
        steps.push_back(
            {moved, seconds_on(axis, parts - 1, bytes * (parts - 1) / parts)});  // all-to-all
      }
    }
    add_permutes(dims, bytes, steps);
    return steps;
  }

  void add_slices(const DimAxes& dims, std::vector<Step>& steps) const {
    for (int axis : free_axes_) {
      if (std::any_of(dims.begin(), dims.end(), [&](const auto& axes) {
            return std::find(axes.begin(), axes.end(), axis) != axes.end();
          }))
        continue;
      for (size_t d = 0; d < dims.size(); ++d) {
        steps.push_back({dims, 0});
        steps.back().to[d].push_back(axis);
      }
    }
  }

  /// Axes of equal size and weights exchange their positions, used or not.
  void add_permutes(const DimAxes& dims, double bytes, std::vector<Step>& steps) const {
    std::vector<int> order = free_axes_;
    do {
      const bool fits = std::equal(order.begin(), order.end(), free_axes_.begin(),
                                   [&](int a, int b) { return from_.mesh->divide_alike(a, b); });
      if (!fits || order == free_axes_) continue;
      DimAxes renamed = dims;
      for (auto& axes : renamed)
        for (int& axis : axes)
          axis = order[std::find(free_axes_.begin(), free_axes_.end(), axis) - free_axes_.begin()];
      double slowest = 0;
      for (size_t i = 0; i < order.size(); ++i)
        if (order[i] != free_axes_[i]) slowest = std::max(slowest, seconds_on(order[i], 1, bytes));
      if (renamed != dims) steps.push_back({renamed, slowest});
    } while (std::next_permutation(order.begin(), order.end()));
  }

  std::vector<Exchange> path_to(const DimAxes& goal) const {
    std::vector<Exchange> path;
    for (DimAxes axes = goal; axes != axes_of(from_); axes = known_.at(axes).before)
      path.push_back(classified(type_.shape, attr_of(known_.at(axes).before), attr_of(axes)));
    std::reverse(path.begin(), path.end());
    return path;
  }

  const TensorType& type_;
  const DistAttr& from_;
  const DistAttr& to_;
  const ReshardOptions& options_;
  const double limit_;
  std::vector<int> free_axes_;
  std::map<DimAxes, Known> known_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

/// A chain has neither windows nor chunks. Units matter where both ends divide a dim. No step of a
/// chain adds or removes an axis of size 1.
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

std::optional<std::vector<Exchange>> find_chain(const TensorType& type, const DistAttr& from,
                                                const DistAttr& to, const ReshardOptions& options) {
  if (!can_chain(from, to)) return std::nullopt;
  return ChainSearch(type, from, to, options).run();
}

}  // namespace tessera
