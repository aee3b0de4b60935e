// Runs task graphs: each rank has a thread, which drives its actors through the order list. All
// ranks run in this process, or in several processes, each with a runtime of its own. This module
// knows task graphs, actors and kernels; it does not know the serial graph, the plan, or why a
// tensor has its placement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor/tensor.h"
#include "base/timeline/timeline.h"
#include "base/units.h"
#include "runtime/memory/run_types.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

class LoadedProgram;

/// The ranks of this process, one thread each, and their parts of the variables. Several processes
/// divide the ranks in blocks: process 0 has the first ones.
///
///   threads    call from one thread
///   processes  all call the same functions in the same order, except those marked "local"; each
///              gets the same results and the same errors
///   failure    the first failure stops all ranks; run() throws it on the caller's thread: a
///              UserError with rank, task and op added to `why`, other errors as InternalError that
///              names rank, task and op. After that every call throws
class Runtime {
 public:
  /// Starts a thread for each of `ranks` that this process runs.
  ///   requires  `ranks` ascend
  ///   throws    UserError (78) when there are more than 1024 ranks, or fewer than processes
  explicit Runtime(std::vector<Rank> ranks, RuntimeOptions options = {});
  /// For programs on one mesh.
  explicit Runtime(const MeshPtr& mesh, RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Binds kernels and allocates the arenas of each rank, where those of earlier programs are too
  /// small. Programs share variables by name; each rank allocates its part of a new variable. A
  /// rank that is in no mesh of the program does nothing in its steps.
  ///   requires  the ranks of its meshes are among those of the runtime
  ///   throws    InternalError when the type or the placement of a variable differs from that in an
  ///             earlier program; UserError (4) when memory is short
  LoadedProgram& load(std::shared_ptr<const TaskGraph> graph);

  /// Initializes the variables of `program` that were not set before. Each rank samples its own
  /// part; no rank holds the whole.
  void initialize(const LoadedProgram& program, uint64_t seed);

  /// One step of all ranks. `inputs` are whole tensors, of which each rank copies its box. The
  /// first call makes the tensors of `results`; later calls fill them again.
  ///   memory    allocates nothing after the second call with the same `results`
  ///   throws    UserError (2) when a variable of the program has no value: neither initialize()
  ///             nor set_variable() or mark_set() has set it
  ///   requires  no step is in flight
  void run(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
           TensorMap& results, const Observer* observer = nullptr);

  // These are the two halves of run(), with which steps follow each other without a pause. A rank
  // begins a step when it has done its part of the previous steps, as soon as the inputs are there.
  // A step of another program begins when all earlier steps are done. Calls that access ranks or
  // variables wait until all steps are done and see the state after the last one.

  /// Begins a step.
  ///   requires  fewer than kMaxStepsInFlight steps are in flight; the tensors of `inputs`,
  ///             `results` and what `observer` points to stay until end_step(); no other step uses
  ///             `results`
  void begin_step(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
                  TensorMap& results, const Observer* observer = nullptr);
  /// Ends the oldest step in flight. Its results are there on return. A failure of any step is
  /// thrown when all ranks are idle; then no step is in flight.
  ///   returns  the time since it was begun or the previous step was done, whichever is later
  Seconds end_step();
  /// What the ranks of this process did in the step that was ended last, on the mean; nullopt when
  /// one of them computes on an accelerator.  (local)
  ///   requires  a step was ended, and none was begun since then
  std::optional<RankTime> mean_rank_time() const;
  /// Steps that were begun and not ended.
  int steps_in_flight() const;

  /// Records, from the next step on, every act, kernel, copy and wait of the ranks of this process,
  /// and every message between ranks.  (local)
  ///   memory  each rank allocates room for `events` spans and as many messages in each direction;
  ///           events beyond that are counted and dropped
  void start_trace(size_t events = 1 << 16);
  /// Ends the recording.
  ///   requires  start_trace()
  ///   returns   the recorded events, with times since start_trace(). The leader gets those of all
  ///             processes, on its own clock, and the others get none; after a failure each process
  ///             gets its own part
  Timeline stop_trace();

  /// Are all slots of the ranks of this process free? With one process they are free after every
  /// step, unless a message was lost. With several processes, the last messages may arrive after a
  /// step. For tests.  (local)
  bool is_quiescent(LoadedProgram& program);

  /// Has a rank failed? Then all others stop. Code that keeps a rank waiting, such as an observer,
  /// polls it.  (local)
  ///   threads  any
  bool failed() const;

  /// A whole variable, assembled from its parts.
  ///   throws  InternalError when two replicas do not have the same bits
  Tensor variable(const std::string& name) const;
  /// Gives every rank its part.  throws  InternalError when the type differs
  void set_variable(const std::string& name, const Tensor& value);
  std::vector<std::string> variable_names() const;

  /// Compares a hash of each part of a variable with those of its replicas, which have the same
  /// bits unless a machine is faulty.
  ///   throws  UserError (1) that names the first variable with a replica mismatch, and two ranks
  void check_replicas();

  /// Calls `work` in every process. It does not call the runtime and may take longer than the
  /// deadline.
  ///   throws  in all processes, the exception of the first process in which `work` threw
  void on_all_processes(const std::function<void()>& work);
  /// The flags that are set in any process, each a bit.
  uint8_t union_of(uint8_t mine);
  /// Is `mine` true in any process?
  bool any(bool mine) { return union_of(mine ? 1 : 0) != 0; }
  /// Calls `take` in the leader for each process, in their order, with the bytes that it gives.
  ///   memory  those of all processes at once, in the leader
  void gather(std::span<const std::byte> mine,
              const std::function<void(std::span<const std::byte>)>& take);
  /// Calls `take` in every process for each process, in their order, with the bytes that it gives.
  void all_gather(std::span<const std::byte> mine,
                  const std::function<void(std::span<const std::byte>)>& take);
  /// Do all processes give the same number?
  bool agree_on(uint64_t mine);
  /// Is this process the leader, which prints and writes the files of the whole run?  (local)
  bool is_leader() const;
  /// The ranks of this process.  (local)
  const std::vector<Rank>& local_ranks() const;

  /// Calls `work` with the parts of each rank, on the threads of the ranks at the same time. It is
  /// for storing and loading variables without moving them. A caller that fills all parts of a
  /// variable then calls mark_set(), so that initialize() does not overwrite it.
  ///   throws  in all processes, the exception of the lowest rank on which `work` threw, when all
  ///           are done; the runtime can still be used
  void on_every_rank(const std::function<void(Rank, std::span<const VariablePart>)>& work);
  void mark_set(const std::string& name);

  int ranks() const;
  /// The bytes that a rank of this process has allocated for arenas, variables and communication;
  /// the maximum over its ranks.  (local)
  Bytes peak_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A task graph bound to the ranks of a runtime; owned by it.
class LoadedProgram {
 public:
  const TaskGraph& graph() const;
  struct State;
  explicit LoadedProgram(std::unique_ptr<State> state);
  ~LoadedProgram();
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tessera
