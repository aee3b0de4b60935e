// Steps that ranks are at, or have done and nobody has asked for yet. It knows when they begin and
// end, not what they compute.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <span>

#include "executor/rank_program.h"
#include "runtime/crew.h"
#include "runtime/shared_results.h"

namespace tessera {

/// What a step runs: a program, and whom of the other members it tells its results (nullptr: there
/// are none).
struct StepPlan {
  BoundProgram* program = nullptr;
  SharedResults* shared = nullptr;
};

/// The steps of the ranks of this member, oldest first. Of one program they follow each other rank
/// by rank: what keeps a rank of a step from writing over what another still reads of the step
/// before are the slots and overwrite edges of its task graph.
///
///   threads  call from one thread
///   memory   made in the constructor
///   failure  the first one ends all steps, and each call that waits then throws it, when all ranks
///   rest
class StepsUnderWay {
 public:
  static constexpr size_t kMost = Crew::kMostJobs;

  /// `here`: by thread of the crew, its rank index.  requires  all of them outlive it; nobody else
  /// gives the crew a job while ranks are busy
  StepsUnderWay(Crew& crew, const std::vector<int>& here, StopState& stop, Network* network,
                Seconds deadline);
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;

  size_t count() const { return static_cast<size_t>(begun_ - ended_); }

  /// A rank takes it up when it has done those begun before. A step of another program than the one
  /// before waits until all of that have ended on all members: variables that both use are guarded
  /// by the edges of one graph only.
  ///   requires  count() < kMost; what `call` points to stays until end()
  void begin(const StepPlan& plan, const StepCall& call);

  /// Ends the oldest: its results are there, those of other members too.
  ///   returns  from when it was begun, or the one before it was done, until it was done: here when
  ///   another one follows it, else by all
  Seconds end();

  /// Waits until all steps are done by all ranks of all members; end() then has nothing to wait
  /// for.
  void rest();

  /// Throws the failure that ends the run, if there is one: then no step is under way.
  void throw_when_stopped();

 private:
  using Clock = std::chrono::steady_clock;

  struct Step {
    StepPlan plan;
    StepCall call;
    Crew::Job job;
    std::atomic<int> busy{0};  // ranks here that have not done it
    Clock::time_point begun, done;
  };

  Step& step(uint64_t number) { return steps_[number % kMost]; }
  void settle_oldest();
  void share(const Step& step);
  void drop_all();

  Crew& crew_;
  const std::vector<int>& here_;
  StopState& stop_;
  Network* network_;
  Seconds deadline_;
  std::array<Step, kMost> steps_;
  uint64_t begun_ = 0, settled_ = 0,
           ended_ = 0;  // steps so far: settled ones are done, and wait for end()
  Clock::time_point last_done_;
};

}  // namespace tessera
