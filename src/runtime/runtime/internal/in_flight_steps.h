// The steps in flight: those that ranks execute, and those that are done and whose results were not
// taken yet. It knows when steps begin and end, not what they compute.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "runtime/comm/network.h"
#include "runtime/comm/stop_state.h"
#include "runtime/executor/bound_program.h"
#include "runtime/memory/run_types.h"
#include "runtime/runtime/internal/shared_results.h"
#include "runtime/runtime/internal/thread_pool.h"

namespace tessera {

/// The program that a step runs, and the exchange of its results with the other processes; nullptr
/// when there are no other processes.
struct StepPlan {
  BoundProgram* program = nullptr;
  SharedResults* shared = nullptr;
};

/// The steps of the ranks of this process, oldest first. A rank begins the next step of a program
/// when it has done its part of the one before. The slots and overwrite edges of the task graph
/// prevent it from overwriting what another rank still reads.
///
///   threads  one caller
///   memory   made in the constructor
///   failure  the first failure ends all steps; each call that waits throws it when all ranks are
///            idle
class InFlightSteps {
 public:
  static constexpr size_t kMax = ThreadPool::kMaxJobs;

  /// `here`: the rank index of each thread of the pool.
  ///   requires  all arguments outlive it; while steps are in flight the pool gets no other jobs
  InFlightSteps(ThreadPool& threads, const std::vector<int>& here, StopState& stop,
                ProcessNetwork* network, Seconds deadline);
  InFlightSteps(const InFlightSteps&) = delete;
  InFlightSteps& operator=(const InFlightSteps&) = delete;

  size_t count() const { return begun_ - ended_; }

  /// Begins a step. A step of another program than the previous one waits until all earlier steps
  /// have ended in all processes, because variables that both programs use are guarded only by the
  /// edges of one graph.
  ///   requires  count() < kMax; what `call` points to stays until end()
  void begin(const StepPlan& plan, const StepCall& call);

  /// Ends the oldest step. Its results are there on return, those of other processes too.
  ///   returns  the time since the later of two events: this step was begun, or the previous step
  ///            was done. If another step follows, a step is done when the ranks of this process
  ///            are done; otherwise, when those of all processes are
  Seconds end();

  /// The mean over the ranks of this process of the step that end() ended last.
  ///   requires  it has ended one, and begin() was not called since then
  RankTime mean_time() const;

  /// Waits until all ranks of all processes have done all steps; end() then does not wait.
  void wait_until_idle();

  /// Throws the failure that stopped the run, if there is one: then no step is in flight.
  void throw_when_stopped();

 private:
  using Clock = std::chrono::steady_clock;

  struct Step {
    StepPlan plan;
    StepCall call;
    ThreadPool::Job job;
    std::vector<RankTime> times;  // by rank index
    std::atomic<int> busy{0};     // ranks of this process that have not done it
    Clock::time_point begun, done;
  };

  Step& step(uint64_t number) { return steps_[number % kMax]; }
  void settle_oldest();
  void share(const Step& step);
  void drop_all();

  ThreadPool& threads_;
  const std::vector<int>& here_;
  StopState& stop_;
  ProcessNetwork* network_;
  Seconds deadline_;
  std::array<Step, kMax> steps_;
  /// The steps so far. Settled steps are done and wait for end().
  uint64_t begun_ = 0, settled_ = 0, ended_ = 0;
  Clock::time_point last_done_;
};

}  // namespace tessera
