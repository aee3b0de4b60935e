// The simulated clock of a pipeline: the begin and end of each pass of given orders, and the
// bubbles and memory that follow from them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/schedule/internal/passes.h"

namespace tessera {

/// The use of one device in a step.
struct DeviceUse {
  double first_start = 0, last_end = 0;
  double busy = 0;        // sum of its passes
  double max_memory = 0;  // the largest memory in use at any time

  double span() const { return last_end - first_start; }
  /// The time without work between its first and its last pass.
  double bubble() const { return span() - busy; }
};

struct TimedPass {
  Pass pass;
  double start = 0, end = 0;
};

struct PassTimeline {
  std::vector<std::vector<TimedPass>> passes;  // by device, in order
  std::vector<DeviceUse> devices;

  double duration() const;      // of the whole step: until the end of the last pass on any device
  double longest_span() const;  // of one device: the time that a step adds when steps overlap
  double max_memory() const;
};

/// Simulates the orders. Every pass begins as soon as the previous one in its device's order has
/// ended and its inputs are there. Transfers take no time of devices and do not delay each other.
///
///   requires  first_fault(shape, orders) is empty except for memory
///   returns   nullopt when passes wait for each other
///   time      O(passes and their needs)
std::optional<PassTimeline> simulate_passes(const PipelineShape& shape, const DeviceOrders& orders);

/// The same for repeated use on orders of one shape, without the details.
class PassClock {
 public:
  explicit PassClock(const PipelineShape& shape);

  /// Returns false when passes wait for each other.
  bool run(const DeviceOrders& orders);

  // These are valid after a run that returned true.
  double start_of(const Pass& pass) const { return start_[index(pass)]; }
  double end_of(const Pass& pass) const { return end_[index(pass)]; }
  double duration() const;
  double longest_span() const;
  const PipelineShape& shape() const { return shape_; }
  /// A pass of the same micro-batch for which a pass waits.
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
  std::vector<double> start_, end_;  // by pass; negative before its end is known
  std::vector<int> waiting_;         // by pass: a device that waits for it, or -1
  std::vector<int> also_waiting_;    // by device: the next one that waits for the same pass, or -1
  std::vector<size_t> next_;         // by device: position in its order
  std::vector<double> free_, first_;
  std::vector<int> ready_;
};

}  // namespace tessera
