#include "compiler/schedule/internal/local_search.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kMaxDistance = 12;  // positions that a pass is moved at most

/// The position of a pass: its device, and its index in the device's order.
struct Position {
  size_t device = 0, index = 0;
};

/// splitmix64 (Steele et al., OOPSLA 2014): the same choices on every machine.
class Sampler {
 public:
  explicit Sampler(uint64_t seed) : state_(seed) {}
  size_t below(size_t count) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % count;
  }

 private:
  uint64_t state_;
};

class LocalSearch {
 public:
  LocalSearch(const PipelineShape& shape, DeviceOrders orders, const LocalSearchOptions& options)
      : shape_(shape),
        orders_(std::move(orders)),
        options_(options),
        clock_(shape),
        sampler_(options.seed) {}

  DeviceOrders run() {
    int64_t passes = 0;
    for (const auto& order : orders_) passes += std::ssize(order);
    ensure(clock_.run(orders_), "the orders of a local search can be run");
    best_ = objective();
    find_path();
    for (int64_t left = options_.work; left > 0 && best_ > options_.enough + kPassSlack;
         left -= passes)
      try_move();
    return std::move(orders_);
  }

 private:
  double objective() const {
    return options_.goal == PipelineGoal::kStep ? clock_.duration() : clock_.longest_span();
  }
  const std::vector<Pass>& order(size_t device) const { return orders_[device]; }

  /// The device with the latest end (or the longest span).
  size_t critical_device() const {
    size_t critical = 0;
    double largest = -1;
    for (size_t d = 0; d < orders_.size(); ++d) {
      if (orders_[d].empty()) continue;
      const double end = clock_.end_of(orders_[d].back());
      const double value =
          options_.goal == PipelineGoal::kStep ? end : end - clock_.start_of(orders_[d].front());
      if (value <= largest) continue;
      largest = value;
      critical = d;
    }
    return critical;
  }

  Position position_of(const Pass& pass) const {
    const size_t device = shape_.stages[pass.stage].device;
    const auto found = std::find(orders_[device].begin(), orders_[device].end(), pass);
    const size_t index = found - orders_[device].begin();
    return {device, index};
  }

  /// The critical path, from the last pass backward: each pass begins when the next one in the list
  /// ends.
  void find_path() {
    path_.clear();
    const size_t device = critical_device();
    Position at{device, orders_[device].size() - 1};
    while (true) {
      path_.push_back(at);
      const Pass& pass = order(at.device)[at.index];
      const double start = clock_.start_of(pass);
      const auto& needs = clock_.needs_of(pass);
      const auto late = std::find_if(needs.begin(), needs.end(), [&](const PassClock::Need& need) {
        return clock_.end_of({need.kind, need.stage, pass.micro_batch}) + need.delay >=
               start - kPassSlack;
      });
      const bool after_last =
          at.index > 0 && clock_.end_of(order(at.device)[at.index - 1]) >= start - kPassSlack;
      if (after_last && (late == needs.end() || sampler_.below(2) == 0))
        --at.index;
      else if (late != needs.end() && start > kPassSlack)
        at = position_of({late->kind, late->stage, pass.micro_batch});
      else
        return;
    }
  }

  /// Moves one pass, mostly one of the critical path, to another position of its device.
  void try_move() {
    Position from = path_[sampler_.below(path_.size())];
    if (sampler_.below(4) == 0) {
      from.device = sampler_.below(orders_.size());
      if (orders_[from.device].empty()) return;
      from.index = sampler_.below(orders_[from.device].size());
    }
    const size_t distance = 1 + sampler_.below(kMaxDistance);
    const bool earlier = sampler_.below(2) == 0;
    const size_t last = orders_[from.device].size() - 1;
    const size_t to = earlier ? from.index - std::min(distance, from.index)
                              : std::min(last, from.index + distance);
    if (to == from.index || !may_move(from, to)) return;
    move(from.device, from.index, to);
    const bool better =
        fits(from.device) && clock_.run(orders_) && objective() <= best_ + kPassSlack;
    if (!better) {
      move(from.device, to, from.index);
      return;
    }
    best_ = std::min(best_, objective());
    find_path();
  }

  /// Does the move keep the pass after its needs and in order among those of its stage and kind?
  bool may_move(const Position& from, size_t to) const {
    const auto& list = order(from.device);
    const Pass& moved = list[from.index];
    const auto [low, high] = std::minmax(from.index, to);
    for (size_t i = low; i <= high; ++i) {
      if (i == from.index || list[i].stage != moved.stage) continue;
      if (list[i].kind == moved.kind || list[i].micro_batch == moved.micro_batch) return false;
    }
    return true;
  }

  void move(size_t device, size_t from, size_t to) {
    auto& list = orders_[device];
    const auto begin = list.begin();
    if (from < to)
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    else
      std::rotate(begin + to, begin + from, begin + from + 1);
  }

  bool fits(size_t device) const {
    if (shape_.memory_limits.empty()) return true;
    double kept = 0;
    for (const Pass& pass : order(device)) {
      kept += memory_of(shape_.stages[pass.stage].costs, pass.kind);
      if (kept > shape_.memory_limits[device] + kPassSlack) return false;
    }
    return true;
  }

  const PipelineShape& shape_;
  DeviceOrders orders_;
  const LocalSearchOptions options_;
  PassClock clock_;  // holds the times of orders_ whenever find_path begins
  Sampler sampler_;
  double best_ = 0;
  std::vector<Position> path_;
};

}  // namespace

DeviceOrders local_search(const PipelineShape& shape, DeviceOrders orders,
                          const LocalSearchOptions& options) {
  return LocalSearch(shape, std::move(orders), options).run();
}

}  // namespace tessera
