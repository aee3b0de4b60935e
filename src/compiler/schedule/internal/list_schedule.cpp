#include "compiler/schedule/internal/list_schedule.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "compiler/schedule/clock.h"
#include "compiler/schedule/internal/stage_lists.h"

namespace tessera {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The number of passes of each kind that a stage has begun.
struct Progress {
  int forward = 0, input_gradient = 0, weight_gradient = 0;
  int& at(PassKind kind) {
    return kind == PassKind::kForward         ? forward
           : kind == PassKind::kInputGradient ? input_gradient
                                              : weight_gradient;
  }
};

struct Choice {
  Pass pass;
  double start = kNever;
};

struct DeviceState {
  std::vector<int> stages;
  double free = 0, kept = 0, limit = kNever;
  double idle = 0;  // since its first pass
  bool last_was_forward = false;
  std::vector<Pass> order;
  Choice choice;        // its next pass, as far as is known
  bool is_open = true;  // the choice is not made, or the state has changed since
};

class ListScheduler {
 public:
  ListScheduler(const PipelineShape& shape, const ListRule& rule)
      : shape_(shape),
        rule_(rule),
        clock_(shape),
        progress_(shape.stages.size()),
        devices_(shape.devices),
        end_(shape.stage_count(), shape.micro_batches, kNever) {
    for (int k = 0; k < std::ssize(shape.stages); ++k) device_of(k).stages.push_back(k);
    if (!shape.memory_limits.empty())
      for (size_t d = 0; d < devices_.size(); ++d)
        devices_[d].limit = shape.memory_limits[d] + kPassSlack;
    find_waiting();
    const std::vector<int> to_end = distances_to_end(shape);
    for (int distance : to_end)
      ahead_.push_back(rule.ahead > 0 ? std::max(1, static_cast<int>(rule.ahead * distance + 0.5))
                                      : shape.micro_batches);
  }

  std::optional<DeviceOrders> run() {
    for (const DeviceState& device : devices_) {
      double kept = 0;
      for (int stage : device.stages) kept += costs(stage).kept;
      if (kept > device.limit) return std::nullopt;
    }
    for (int left = 3 * shape_.stage_count() * shape_.micro_batches; left > 0; --left) {
      Choice first;
      for (DeviceState& device : devices_) {
        if (device.is_open) device.choice = choose(device);
        device.is_open = false;
        if (device.choice.start < first.start) first = device.choice;
      }
      if (first.start == kNever) return std::nullopt;
      commit(first);
    }
    DeviceOrders orders;
    for (DeviceState& device : devices_) orders.push_back(std::move(device.order));
    return orders;
  }

 private:
  DeviceState& device_of(int stage) { return devices_[shape_.stages[stage].device]; }
  const StageCosts& costs(int stage) const { return shape_.stages[stage].costs; }
  Progress& progress(int stage) { return progress_[stage]; }
  double& end_of(PassKind kind, int stage, int micro_batch) {
    return end_.at(kind, stage, micro_batch);
  }

  /// The time at which all its needs are there; kNever when a need has not begun.
  double arrival(const Pass& pass) {
    double time = 0;
    for (const PassClock::Need& need : clock_.needs_of(pass))
      time = std::max(time, end_of(need.kind, need.stage, pass.micro_batch) + need.delay);
    return time;
  }

  /// Its next pass of a kind, if there is one.
  std::optional<Choice> next(int stage, PassKind kind) {
    const Pass pass{kind, stage, progress(stage).at(kind)};
    if (pass.micro_batch >= shape_.micro_batches) return std::nullopt;
    const double there = arrival(pass);
    if (there == kNever) return std::nullopt;
    return Choice{pass, there};
  }

  bool may_begin_forward(const DeviceState& device, int stage) {
    const Progress& done = progress(stage);
    if (done.forward - done.input_gradient >= ahead_[stage]) return false;
    return device.limit == kNever || is_safe(device, stage);
  }

  /// Can every micro-batch be finished after one more F of `stage`, the oldest first?
  bool is_safe(const DeviceState& device, int stage) {
    double kept = device.kept + costs(stage).kept;
    if (kept > device.limit) return false;
    if (device.stages.size() == 1) return true;
    int oldest = shape_.micro_batches, newest = 0;
    for (int k : device.stages) {
      oldest = std::min(oldest, progress(k).weight_gradient);
      newest = std::max(newest, progress(k).forward + (k == stage ? 1 : 0));
    }
    for (int i = oldest; i < newest; ++i) {
      double more = 0, held = 0;
      for (int k : device.stages) {
        const Progress& done = progress(k);
        if (i >= done.forward + (k == stage ? 1 : 0))
          more += costs(k).kept;
        else if (i >= done.weight_gradient)
          held += costs(k).kept - (i < done.input_gradient ? costs(k).freed_early : 0);
      }
      if (kept + more > device.limit) return false;
      kept -= held;
    }
    return true;
  }

  bool is_better(const DeviceState& device, const Choice& a, const Choice& b) const {
    const bool a_forward = a.pass.kind == PassKind::kForward,
               b_forward = b.pass.kind == PassKind::kForward;
    if (a_forward != b_forward) {
      if (rule_.prefer == ListRule::Prefer::kBackward) return b_forward;
      if (rule_.prefer == ListRule::Prefer::kForward) return a_forward;
      return a_forward != device.last_was_forward;
    }
    if (a.pass.micro_batch != b.pass.micro_batch) return a.pass.micro_batch < b.pass.micro_batch;
    return a.start < b.start;
  }

  std::optional<Choice> next_weight_gradient(const DeviceState& device) {
    std::optional<Choice> oldest;
    for (int stage : device.stages)
      if (auto choice = next(stage, PassKind::kWeightGradient);
          choice && choice->start <= device.free + kPassSlack &&
          (!oldest || choice->pass.micro_batch < oldest->pass.micro_batch))
        oldest = choice;
    return oldest;
  }

  Choice choose(DeviceState& device) {
    const double now = std::max(device.free, now_);
    std::optional<Choice> best;  // ready now
    Choice soon;                 // known to become ready
    double backward_comes = kNever;
    for (int stage : device.stages)
      for (PassKind kind : {PassKind::kForward, PassKind::kInputGradient}) {
        const std::optional<Choice> choice = next(stage, kind);
        if (!choice) continue;
        if (kind == PassKind::kForward && !may_begin_forward(device, stage)) continue;
        if (kind == PassKind::kInputGradient)
          backward_comes = std::min(backward_comes, choice->start);
        if (choice->start > now + kPassSlack) {
          if (choice->start < soon.start) soon = *choice;
        } else if (!best || is_better(device, *choice, *best)) {
          best = choice;
        }
      }
    if (best && rule_.awaits_backward && best->pass.kind == PassKind::kForward &&
        backward_comes > now + kPassSlack &&
        backward_comes < now + costs(best->pass.stage).forward - kPassSlack)
      best.reset();
    if (best) return {best->pass, now};
    const std::optional<Choice> w = next_weight_gradient(device);
    if (w && fills(device, now, soon.start, costs(w->pass.stage).weight_gradient))
      return {w->pass, now};
    return soon;
  }

  bool fills(const DeviceState& device, double now, double until, double time) const {
    if (now + time <= until + kPassSlack || rule_.fill == ListRule::Fill::kAlways) return true;
    if (rule_.fill == ListRule::Fill::kFits) return false;
    double largest = 0;
    for (const DeviceState& other : devices_) largest = std::max(largest, other.idle);
    return device.idle + (until - now) > largest + kPassSlack;
  }

  void commit(const Choice& choice) {
    const Pass& pass = choice.pass;
    DeviceState& device = device_of(pass.stage);
    now_ = choice.start;
    if (!device.order.empty()) device.idle += choice.start - device.free;
    device.free = choice.start + time_of(costs(pass.stage), pass.kind);
    device.kept += memory_of(costs(pass.stage), pass.kind);
    if (pass.kind != PassKind::kWeightGradient)
      device.last_was_forward = pass.kind == PassKind::kForward;
    ++progress(pass.stage).at(pass.kind);
    end_of(pass.kind, pass.stage, pass.micro_batch) = device.free;
    device.order.push_back(pass);
    device.is_open = true;
    for (int stage : waiting_[index_of(pass.kind)][pass.stage]) device_of(stage).is_open = true;
  }

  /// By pass, the stages with a pass that needs it.
  void find_waiting() {
    for (auto& of_kind : waiting_) of_kind.resize(shape_.stages.size());
    for (int k = 0; k < std::ssize(shape_.stages); ++k)
      for (const auto& needs : shape_.stages[k].needs)
        for (const PassNeed& need : needs) waiting_[index_of(need.kind)][need.stage].push_back(k);
  }

  const PipelineShape& shape_;
  const ListRule rule_;
  PassClock clock_;  // knows the needs
  std::array<std::vector<std::vector<int>>, 3> waiting_;
  std::vector<Progress> progress_;
  std::vector<DeviceState> devices_;
  PassTable<double> end_;   // kNever: has not begun
  std::vector<int> ahead_;  // by stage
  double now_ = 0;          // start of the last pass that was chosen
};

}  // namespace

std::optional<DeviceOrders> list_schedule(const PipelineShape& shape, const ListRule& rule) {
  return ListScheduler(shape, rule).run();
}

}  // namespace tessera
