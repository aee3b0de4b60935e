#include "compiler/schedule/clock.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr double kUnknown = -1;

}  // namespace

PassClock::PassClock(const PipelineShape& shape) : shape_(shape) {
  const int stages = shape.stage_count();
  for (auto& needs : needs_) needs.resize(stages);
  for (int k = 0; k < stages; ++k)
    for (PassKind kind : {PassKind::kForward, PassKind::kInputGradient, PassKind::kWeightGradient})
      for (const PassNeed& need : shape.stages[k].needs_of(kind)) {
        const bool near = shape.stages[need.stage].device == shape.stages[k].device;
        const Need timed{need.stage, need.kind,
                         near ? 0 : shape.transfer_of(std::max(k, need.stage))};
        needs_[index_of(kind)][k].push_back(timed);
        const bool inside = need.stage == k && need.kind != PassKind::kForward;
        if (kind != PassKind::kForward && !inside)
          needs_[index_of(PassKind::kBackward)][k].push_back(timed);
      }
  const int64_t passes = int64_t{3} * stages * shape.micro_batches, devices = shape.devices;
  start_.resize(passes);
  end_.resize(passes);
  waiting_.resize(passes);
  also_waiting_.resize(devices);
  next_.resize(devices);
  free_.resize(devices);
  first_.resize(devices);
  ready_.reserve(passes + devices);
}

/// The index of W for BW, which has the entries of B and of W.
size_t PassClock::index(PassKind kind, int stage, int micro_batch) const {
  const size_t of_kind = index_of(kind == PassKind::kBackward ? PassKind::kWeightGradient : kind);
  return (of_kind * shape_.stages.size() + stage) * shape_.micro_batches + micro_batch;
}

bool PassClock::run(const DeviceOrders& orders) {
  std::fill(end_.begin(), end_.end(), kUnknown);
  std::fill(waiting_.begin(), waiting_.end(), -1);
  std::fill(next_.begin(), next_.end(), 0);
  std::fill(free_.begin(), free_.end(), 0);
  std::fill(first_.begin(), first_.end(), 0);
  ready_.clear();
  for (int d = 0; d < shape_.devices; ++d) ready_.push_back(d);
  for (size_t i = 0; i < ready_.size(); ++i) advance(ready_[i], orders[ready_[i]]);
  for (size_t d = 0; d < orders.size(); ++d)
    if (next_[d] < orders[d].size()) return false;
  return true;
}

void PassClock::advance(int device, const std::vector<Pass>& order) {
  size_t& next = next_[device];
  double& free = free_[device];
  for (; next < order.size(); ++next) {
    const Pass& pass = order[next];
    double start = free;
    if (!is_ready(device, pass, start)) return;
    if (next == 0) first_[device] = start;
    free = start + time_of(shape_.stages[pass.stage].costs, pass.kind);
    if (pass.kind == PassKind::kBackward)
      finish(index(PassKind::kInputGradient, pass.stage, pass.micro_batch), start, free);
    finish(index(pass), start, free);
  }
}

bool PassClock::is_ready(int device, const Pass& pass, double& start) {
  for (const Need& need : needs_of(pass)) {
    const size_t needed = index(need.kind, need.stage, pass.micro_batch);
    if (end_[needed] == kUnknown) {
      also_waiting_[device] = waiting_[needed];
      waiting_[needed] = device;
      return false;
    }
    start = std::max(start, end_[needed] + need.delay);
  }
  return true;
}

void PassClock::finish(size_t pass, double start, double end) {
  start_[pass] = start;
  end_[pass] = end;
  for (int device = waiting_[pass]; device >= 0; device = also_waiting_[device])
    ready_.push_back(device);
}

double PassClock::duration() const {
  return *std::max_element(free_.begin(), free_.end());
}

double PassClock::longest_span() const {
  double longest = 0;
  for (size_t d = 0; d < free_.size(); ++d) longest = std::max(longest, free_[d] - first_[d]);
  return longest;
}

double PassTimeline::duration() const {
  double largest = 0;
  for (const DeviceUse& use : devices) largest = std::max(largest, use.last_end);
  return largest;
}

double PassTimeline::longest_span() const {
  double largest = 0;
  for (const DeviceUse& use : devices) largest = std::max(largest, use.span());
  return largest;
}

double PassTimeline::max_memory() const {
  double largest = 0;
  for (const DeviceUse& use : devices) largest = std::max(largest, use.max_memory);
  return largest;
}

std::optional<PassTimeline> simulate_passes(const PipelineShape& shape,
                                            const DeviceOrders& orders) {
  PassClock clock(shape);
  if (!clock.run(orders)) return std::nullopt;
  PassTimeline timeline;
  for (const std::vector<Pass>& order : orders) {
    DeviceUse use;
    double kept = 0;
    timeline.passes.emplace_back();
    for (const Pass& pass : order) {
      const StageCosts& costs = shape.stages[pass.stage].costs;
      timeline.passes.back().push_back({pass, clock.start_of(pass), clock.end_of(pass)});
      use.busy += time_of(costs, pass.kind);
      kept += memory_of(costs, pass.kind);
      use.max_memory = std::max(use.max_memory, kept);
    }
    if (!order.empty()) {
      use.first_start = timeline.passes.back().front().start;
      use.last_end = timeline.passes.back().back().end;
    }
    timeline.devices.push_back(use);
  }
  return timeline;
}

}  // namespace tessera
