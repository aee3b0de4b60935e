// The simulated clock of a pipeline: when each pass of given orders begins and ends, and the
// bubbles and memory that follow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/passes.h"

namespace tessera {

/// The use of one device in a step.
struct DeviceUse {
  double first_start = 0, last_end = 0;
  double busy = 0;        // sum of its passes
  double max_memory = 0;  // the largest memory in use at any time

  double span() const { return last_end - first_start; }
  double bubble() const {
    return span() - busy;
  }  // time without work between its first and its last pass
};

struct TimedPass {
  Pass pass;
  double start = 0, end = 0;
};

struct PassTimeline {
  std::vector<std::vector<TimedPass>> passes;  // by device, in order
  std::vector<DeviceUse> devices;

  double duration() const;      // of the whole step: to the end of the last pass anywhere
  double longest_span() const;  // of one device: what a step adds when steps overlap
  double max_memory() const;
};

/// Lets every pass begin as soon as the one before it in its device's order is over and what it
/// needs is there. Transfers take no time of devices and are not in each other's way.
///
///   requires  first_fault(shape, orders) is empty but for memory
///   returns   nothing when passes wait for each other
///   time      O(passes and their needs)
std::optional<PassTimeline> run_on_clock(const PipelineShape& shape, const DeviceOrders& orders);

/// The same again and again, of orders of one shape, without the details.
class PassClock {
 public:
  explicit PassClock(const PipelineShape& shape);

  /// false when passes wait for each other
  bool run(const DeviceOrders& orders);

  // After a run that went through:
  double start_of(const Pass& pass) const { return start_[index(pass)]; }
  double end_of(const Pass& pass) const { return end_[index(pass)]; }
  double duration() const;
  double longest_span() const;
  const PipelineShape& shape() const { return shape_; }
  /// What the pass waits for, of its own micro-batch.
  struct Need {
    int stage;
    PassKind kind;
    double delay;
  };
  const std::vector<Need>& needs_of(const Pass& pass) const {
    return needs_[index_of(pass.kind)][pass.stage];
  }

 private:
  size_t index(PassKind kind, int stage, int micro_batch) const;
  size_t index(const Pass& pass) const { return index(pass.kind, pass.stage, pass.micro_batch); }
  void advance(int device, const std::vector<Pass>& order);
  bool is_ready(int device, const Pass& pass, double& start);
  void finish(size_t pass, double start, double end);

  PipelineShape shape_;
  std::vector<std::vector<Need>> needs_[kPassKinds];
  std::vector<double> start_, end_;  // by pass; before its end is known: negative
  std::vector<int> waiting_;         // by pass: a device that waits for it, or -1
  std::vector<int> also_waiting_;    // by device: the next one that waits for the same pass, or -1
  std::vector<size_t> next_;         // by device: place in its order
  std::vector<double> free_, first_;
  std::vector<int> ready_;
};

}  // namespace tessera
