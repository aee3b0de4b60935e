// Runs task graphs: one thread a rank, each driving its actors through the order list. The ranks
// are threads of one program, or divided among several (members), each with a runtime of its own.
// This room knows task graphs, actors and kernels; it does not know the serial graph, the plan, or
// why anything is where it is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "executor/types.h"
#include "tasks/task_graph.h"
#include "trace/timeline.h"

namespace tessera {

class LoadedProgram;

/// A group of ranks: one thread each, made here and joined in the destructor, and the variables, in
/// parts, of each rank. Of several members each has the ranks of its share, in blocks: the first
/// ranks are those of member 0.
///
///   threads  call from one thread
///   members  all call the same in the same order, but for what is marked "alone"; each gets the
///   same results and the same errors failure  the first failure stops all ranks; run() throws it
///   on the caller's thread (a UserError as it was, with rank, task and op
///            added to `why`; others as InternalError naming rank, task and op); after that every
///            call throws
class Runtime {
 public:
  /// One thread for each of `processes` that is on this member; they are in ascending order.
  ///   requires  at least as many processes as members
  ///   throws    UserError (78) when they are more than 1024
  explicit Runtime(std::vector<Rank> processes, RuntimeOptions options = {});
  /// For programs on one mesh.
  explicit Runtime(const MeshPtr& mesh, RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Binds kernels and allocates each rank's arena. Programs share variables by name; a variable
  /// that is new is allocated, each rank its own part.
  ///   requires  the processes of its meshes are among those of the runtime; a process that is in
  ///   none of them does nothing in its steps throws    InternalError when a variable's type or
  ///   placement differs from that of an earlier program; UserError (4) when memory is
  ///             short
  LoadedProgram& load(std::shared_ptr<const TaskGraph> graph);

  /// Draws every variable of `program` that was not set before, each rank its own part. No rank
  /// holds the whole.
  void initialize(const LoadedProgram& program, uint64_t seed);

  /// One step of every rank. `inputs` are whole tensors (a rank copies its box); results are put
  /// together into `results`, whose tensors are made by the first call and filled again by later
  /// ones.
  ///   memory   allocates nothing after the second call with the same `results`
  ///   requires  no step is under way
  void run(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
           TensorMap& results, const Observer* observer = nullptr);

  // The same in two halves, so that steps follow each other without a pause. A rank takes a step up
  // when it has done its part of those begun before, and goes on as its inputs come, whatever the
  // others do; of another program than the one before a step begins when all of that is done. Calls
  // that look at ranks or variables wait until all steps that were begun are done, and see what the
  // last of them left.

  /// Begins a step.
  ///   requires  fewer than kStepsUnderWay are under way; the tensors of `inputs`, `results` and
  ///   what `observer` points to stay until
  ///             end_step(), and `results` is of this step alone
  void begin_step(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
                  TensorMap& results, const Observer* observer = nullptr);
  /// Ends the oldest step under way: its results are there. A failure of any step under way is
  /// thrown when all ranks rest; then none is.
  ///   returns  from when it was begun, or the one before it was done, until it was done
  Seconds end_step();
  /// Begun and not ended.
  int steps_under_way() const;

  /// From the next step on every act, kernel, copy and wait of every rank of this member is written
  /// down, and every message between them.
  ///   memory   room for `events` spans and as many messages each way, of each rank, is made here;
  ///   what finds no room is only counted members  alone
  void start_trace(size_t events = 1 << 16);
  /// What was written down, with times since start_trace; nothing is any more.  requires
  /// start_trace
  ///   members  the one that speaks gets what all wrote down, by its own clock, and the others
  ///   nothing; after a failure each gets its own
  Timeline stop_trace();

  /// Is every slot of the ranks of this member home after the last step? On one member it is, or a
  /// message was lost; from others the last ones come some time after the step. For tests.  members
  /// alone
  bool drained(LoadedProgram& program);

  /// Has a rank failed? Then all others stop. Whoever keeps a rank waiting, such as an observer,
  /// polls it.  threads  any  members  alone
  bool failed() const;

  /// A whole variable, put together from its parts; replicas are checked to be bit-identical.
  /// throws  InternalError when replicas differ
  Tensor variable(const std::string& name) const;
  /// Gives every rank its part.  throws  InternalError when the type differs
  void set_variable(const std::string& name, const Tensor& value);
  std::vector<std::string> variable_names() const;

  /// Compares a hash of each part of a variable with that of its replicas, which never differ on
  /// machines that compute right.
  ///   throws  UserError (1) that names the first variable that is off, and two ranks
  void check_replicas();

  /// Each member does `work`, which calls nothing of the runtime and may take longer than the
  /// deadline.  throws  what it threw on the first member on which it did, on all of them
  void together(const std::function<void()>& work);
  /// Does any member say yes?
  bool any(bool mine);
  /// The one member that speaks for all: writes what there is once, and prints.  members  alone
  bool speaks() const;
  /// The ranks of this member.  members  alone
  const std::vector<Rank>& local_ranks() const;

  /// Calls `work` with the parts of each rank, on the thread of the rank, all at the same time; for
  /// storing and loading variables where they lie. Whoever fills every part of a variable then
  /// marks it as set, so that initialize() leaves it.
  ///   throws  what `work` threw on the lowest rank, when all are done, on all members; the runtime
  ///   goes on
  void on_every_rank(const std::function<void(Rank, std::span<const VariablePart>)>& work);
  void mark_set(const std::string& name);

  int ranks() const;
  /// Largest sum over the ranks of this member of what is allocated for arenas and variables and
  /// for what travels, in bytes, of one rank. members  alone
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
