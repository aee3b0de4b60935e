// Launches the acts of one rank on its streams.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "runtime/executor/internal/actor_messages.h"
#include "runtime/executor/internal/bound_task.h"
#include "runtime/executor/internal/control_flow.h"
#include "runtime/executor/internal/exchanges/exchanger.h"
#include "runtime/executor/internal/rank_stream.h"
#include "runtime/executor/internal/rank_wait.h"
#include "runtime/executor/internal/record/rank_observer.h"
#include "runtime/memory/rank_memory.h"
#include "runtime/memory/run_types.h"

namespace tessera {

/// threads  the thread of the rank
class TaskLauncher {
 public:
  TaskLauncher(RankMemory& memory, Exchanger& exchanger, ActorMessages& messages,
               const RankObserver& observer, RankWait& wait)
      : memory_(memory),
        exchanger_(exchanger),
        messages_(messages),
        observer_(observer),
        wait_(wait) {}
  void begin_step(const StepCall& call) { call_ = call; }
  /// Calls `advance` after each kernel on the host, so that what runs beside it does not wait for
  /// the end of the act.
  void between_kernels(std::function<void()> advance) { advance_ = std::move(advance); }

  /// Begins an act of `task` and gives its work to `stream`, followed by the completion event. On
  /// the host the act is done on return.
  ///   requires  the actor is ready
  ///   throws    RunStopped; on the host also the exception of a kernel
  void launch(RankStream& stream, BoundTask& task);

  /// The op of the kernel that runs on the host, in the innermost region; "" when none runs.
  std::string running_op() const;

 private:
  void launch_copy(RankStream& stream, const Task& task) const;
  void launch_steps(RankStream& stream, BoundTask& task);
  void run_exchange(BoundTask& task);
  void run_feed(const BoundTask& task);
  void run_fetch(const BoundTask& task);

  RankMemory& memory_;
  Exchanger& exchanger_;
  ActorMessages& messages_;
  const RankObserver& observer_;
  RankWait& wait_;
  StepCall call_;
  std::function<void()> advance_;
  const KernelStep* running_step_ = nullptr;  // on the host
  Region* running_region_ = nullptr;
};

}  // namespace tessera
