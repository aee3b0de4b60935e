// The messages between the actors of one rank and those of other ranks.
#pragma once

#include <vector>

#include "runtime/executor/internal/bound_tasks.h"
#include "runtime/executor/internal/program_ranks.h"
#include "runtime/executor/internal/record/recorder.h"

namespace tessera {

/// threads  the thread of its rank
/// memory   nothing is allocated in the steady state
class ActorMessages {
 public:
  ActorMessages(const ProgramRanks& ranks, int rank_index, BoundTasks& tasks)
      : ranks_(ranks),
        program_(ranks.context()),
        rank_index_(rank_index),
        endpoint_(*ranks.find(rank_index)),
        tasks_(tasks) {}
  /// Makes the mailbox.  requires  the table of tasks is complete
  void open();

  /// Delivers the messages that have arrived to their actors.
  void receive();
  const ProgramRanks& ranks() const { return ranks_; }
  bool has_any() const { return endpoint_.mailbox->has_messages(); }
  /// Ends the current act of `task`, which began at `begin`, sends its messages and records the
  /// act.
  void finish_act(BoundTask& task, Recorder::Time begin, TaskStream stream);

  // Recording costs a comparison when there is no recorder.

  /// nullptr: nothing is recorded.
  void record_into(Recorder* recorder) { recorder_ = recorder; }
  bool is_recording() const { return recorder_ != nullptr; }
  Recorder::Time now() const { return recorder_ ? Recorder::now() : Recorder::Time(); }
  /// Records a wait that ends now.
  void record_wait(const BoundTask& task, Recorder::Time begin);
  /// Records a kernel of the current act.
  ///   returns  when it ended
  Recorder::Time record_kernel(const BoundTask& task, const KernelStep& step, Recorder::Time begin);

 private:
  void send(const Message& message);
  Recorder::MessageEvent event_of(const Message& message, ActorId actor) const;

  const ProgramRanks& ranks_;
  const ProgramContext& program_;
  const int rank_index_;
  RankEndpoint& endpoint_;
  BoundTasks& tasks_;
  std::vector<Message> outgoing_;  // reused
  Recorder* recorder_ = nullptr;
};

}  // namespace tessera
