#include "schedule/polish.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr double kSlack = 1e-9;
constexpr int kFarthest = 12;  // places that a pass is moved at most

/// Place of a pass: device, index in its order.
struct Place {
  size_t device = 0, index = 0;
};

/// A small generator of its own: the same choices on every machine (splitmix64, Steele et al.,
/// OOPSLA 2014).
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  size_t below(size_t count) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<size_t>((z ^ (z >> 31)) % count);
  }

 private:
  uint64_t state_;
};

class Polish {
 public:
  Polish(const PipelineShape& shape, DeviceOrders orders, const PolishOptions& options)
      : shape_(shape),
        orders_(std::move(orders)),
        options_(options),
        clock_(shape),
        draw_(options.seed) {}

  DeviceOrders run() {
    int64_t passes = 0;
    for (const auto& order : orders_) passes += std::ssize(order);
    ensure(clock_.run(orders_), "orders that are polished can be run");
    best_ = worth();
    find_path();
    for (int64_t left = options_.work; left > 0 && best_ > options_.enough + kSlack;
         left -= passes)
      try_one();
    return std::move(orders_);
  }

 private:
  double worth() const {
    return options_.goal == PipelineGoal::kStep ? clock_.duration() : clock_.longest_span();
  }
  const std::vector<Pass>& order(size_t device) const { return orders_[device]; }

  /// The device whose end (or span) counts.
  size_t decisive_device() const {
    size_t decisive = 0;
    double most = -1;
    for (size_t d = 0; d < orders_.size(); ++d) {
      if (orders_[d].empty()) continue;
      const double end = clock_.end_of(orders_[d].back());
      const double value =
          options_.goal == PipelineGoal::kStep ? end : end - clock_.start_of(orders_[d].front());
      if (value <= most) continue;
      most = value;
      decisive = d;
    }
    return decisive;
  }

  Place place_of(const Pass& pass) const {
    const size_t device = shape_.stages[pass.stage].device;
    const auto found = std::find(orders_[device].begin(), orders_[device].end(), pass);
    return {device, static_cast<size_t>(found - orders_[device].begin())};
  }

  /// The passes that decide when the last one ends, from the last back: each begins when the next
  /// one in the list ends.
  void find_path() {
    path_.clear();
    const size_t device = decisive_device();
    Place at{device, orders_[device].size() - 1};
    while (true) {
      path_.push_back(at);
      const Pass& pass = order(at.device)[at.index];
      const double start = clock_.start_of(pass);
      const auto& needs = clock_.needs_of(pass);
      const auto late = std::find_if(needs.begin(), needs.end(), [&](const PassClock::Need& need) {
        return clock_.end_of({need.kind, need.stage, pass.micro_batch}) + need.delay >=
               start - kSlack;
      });
      const bool after_last =
          at.index > 0 && clock_.end_of(order(at.device)[at.index - 1]) >= start - kSlack;
      if (after_last && (late == needs.end() || draw_.below(2) == 0))
        --at.index;
      else if (late != needs.end() && start > kSlack)
        at = place_of({late->kind, late->stage, pass.micro_batch});
      else
        return;
    }
  }

  /// Moves one pass of the path, or any, to another place of its device.
  void try_one() {
    Place from = path_[draw_.below(path_.size())];
    if (draw_.below(4) == 0) {
      from.device = draw_.below(orders_.size());
      if (orders_[from.device].empty()) return;
      from.index = draw_.below(orders_[from.device].size());
    }
    const size_t far = 1 + draw_.below(kFarthest);
    const bool earlier = draw_.below(2) == 0;
    const size_t last = orders_[from.device].size() - 1;
    const size_t to =
        earlier ? from.index - std::min(far, from.index) : std::min(last, from.index + far);
    if (to == from.index || !may_move(from, to)) return;
    move(from.device, from.index, to);
    const bool better = fits(from.device) && clock_.run(orders_) && worth() <= best_ + kSlack;
    if (!better) {
      move(from.device, to, from.index);
      return;
    }
    best_ = std::min(best_, worth());
    find_path();
  }

  /// Would it pass one that it needs, or another of its stage and kind?
  bool may_move(const Place& from, size_t to) const {
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
    const auto f = static_cast<std::ptrdiff_t>(from), t = static_cast<std::ptrdiff_t>(to);
    if (from < to)
      std::rotate(begin + f, begin + f + 1, begin + t + 1);
    else
      std::rotate(begin + t, begin + f, begin + f + 1);
  }

  bool fits(size_t device) const {
    if (shape_.memory_limits.empty()) return true;
    double kept = 0;
    for (const Pass& pass : order(device)) {
      kept += memory_of(shape_.stages[pass.stage].costs, pass.kind);
      if (kept > shape_.memory_limits[device] + kSlack) return false;
    }
    return true;
  }

  const PipelineShape& shape_;
  DeviceOrders orders_;
  const PolishOptions options_;
  PassClock clock_;  // holds the times of orders_ whenever find_path begins
  Draw draw_;
  double best_ = 0;
  std::vector<Place> path_;
};

}  // namespace

DeviceOrders polish(const PipelineShape& shape, DeviceOrders orders, const PolishOptions& options) {
  return Polish(shape, std::move(orders), options).run();
}

}  // namespace tessera
