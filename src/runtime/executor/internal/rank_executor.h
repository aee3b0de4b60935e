// One rank of a loaded program. It executes the order list, stream by stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/internal/actor_messages.h"
#include "runtime/executor/internal/bound_tasks.h"
#include "runtime/executor/internal/exchanges/exchanger.h"
#include "runtime/executor/internal/program_ranks.h"
#include "runtime/executor/internal/rank_stream.h"
#include "runtime/executor/internal/rank_wait.h"
#include "runtime/executor/internal/record/rank_observer.h"
#include "runtime/executor/internal/record/step_stopwatch.h"
#include "runtime/executor/internal/record/wait_report.h"
#include "runtime/executor/internal/region.h"
#include "runtime/executor/internal/task_binder.h"
#include "runtime/executor/internal/task_launcher.h"
#include "runtime/memory/run_types.h"

namespace tessera {

/// Each stream takes its tasks in the order of the order list. It waits for another stream only
/// through the registers that it reads and overwrites.
///
///   threads  made, bound and run by the thread of its rank; all ranks pass a barrier between
///            constructor, bind() and run()
class RankExecutor : public Region {
 public:
  /// requires  the endpoints of this rank are made
  RankExecutor(ProgramRanks& ranks, int rank_index);
  /// Binds the tasks.
  ///   requires  every rank has found its recv regions, and the ranks of `regions` are bound
  void bind(const RankRegions& regions);

  /// One step. A failure is kept in the stop state and stops all ranks.
  ///   memory  allocates nothing from the second step on
  void run(const StepCall& call);

  /// Records from the next step on, nothing when it is nullptr. `recorder` outlives the steps.
  void record_into(Recorder* recorder) { messages_.record_into(recorder); }
  /// Takes the messages that have arrived. Are all slots of its registers free? Call it between
  /// steps.
  bool is_quiescent();
  Bytes staging_bytes() { return exchanger_.staging_bytes(); }
  /// Does ExchangeBackend::join_group for all exchanges.
  void join_groups() { exchanger_.join_groups(); }

  void lend(int index, std::byte* memory) override { endpoint_.memory.lend(index, memory); }
  void run_region(const StepCall& call) override;
  void wait_until_released() override;
  std::string running_op() const override { return launcher_.running_op(); }

 private:
  void make_streams();
  void run_streams();
  bool is_done() const;
  bool advance_streams();
  void advance_beside_host();
  bool advance_devices();
  bool advance(RankStream& stream);
  bool advance_prefetch(RankStream& stream, Prefetch& prefetch);
  void launch(RankStream& stream, BoundTask& task);
  void finish(RankStream& stream, BoundTask& task);
  void finish_launched_work();
  void record_wait_before(const BoundTask& task);
  std::string describe_streams();
  void set_position(int position) { endpoint_.position.store(position, std::memory_order_relaxed); }

  ProgramRanks& ranks_;
  const ProgramContext& program_;
  const int rank_index_;
  RankEndpoint& endpoint_;
  BoundTasks tasks_;
  RankObserver observer_;
  ActorMessages messages_;
  Exchanger exchanger_;
  RankWait wait_;
  TaskLauncher launcher_;
  const WaitReport report_;
  std::vector<std::unique_ptr<RankStream>> streams_;  // the stream of the host is the first
  StepStopwatch stopwatch_;
  bool is_waiting_ = false;  // for the record: no stream has progressed since wait_begin_
  Recorder::Time wait_begin_ = {};
};

}  // namespace tessera
