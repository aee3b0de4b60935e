// A task graph as one rank runs it: its memory, actors, bound kernels and copy plans. Ranks know
// each other through the BoundProgram that they share.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/task_actors.h"
#include "comm/mailbox.h"
#include "copy/box_combine.h"
#include "executor/collective.h"
#include "executor/far_pulls.h"
#include "executor/rank_ahead.h"
#include "executor/rank_device.h"
#include "executor/rank_streams.h"
#include "executor/recorder.h"
#include "executor/types.h"
#include "executor/variable_store.h"

namespace tessera {

class RankProgram;
struct BoundProgram;

/// A program as other members reach it: takes messages and asks for its ranks, as long as it lives.
class OpenProgram : public ProgramPort {
 public:
  explicit OpenProgram(BoundProgram& program);
  ~OpenProgram() override;
  /// From here on.  requires  all ranks are bound
  void open();
  int number() const { return number_; }

  void take(const Message& message) override;
  void note_filled(const Message& ready) override;
  std::optional<Answer> answer(const FetchRequest& request) override;

 private:
  BoundProgram& program_;
  int number_;
};

/// What the ranks of one loaded program share.
struct BoundProgram {
  std::shared_ptr<const TaskGraph> graph;
  std::vector<Rank> processes;  // by rank index, ascending
  RuntimeOptions options;
  StopState* stop = nullptr;
  VariableStore* variables = nullptr;
  std::vector<std::unique_ptr<RankDevice>>* devices =
      nullptr;  // by rank index; nullptr where a rank has none
  SpinPolicy spin_policy;
  std::unique_ptr<TaskActors> actors;  // of all ranks
  std::vector<std::unique_ptr<RankProgram>> ranks;
  /// The regions of each While and If: programs of the same ranks, whose variables lie in registers
  /// of this one.
  std::map<const Control*, std::vector<std::unique_ptr<BoundProgram>>> regions;
  bool is_region = false;
  /// Of several members: which one each rank is on; only those of this one are in `ranks`.
  Network* network = nullptr;
  std::vector<int> members;  // by rank index
  std::unique_ptr<OpenProgram> open = nullptr;

  bool is_here(int rank_index) const {
    return !network || members[rank_index] == network->process();
  }
  /// Keeps a failure and tells all ranks, here and on other members.
  void fail(const Failure& failure);
  int index_of(Rank process) const { return actors->index_of(process); }
  const Register& reg(RegisterIndex index) const { return graph->registers[index]; }
  const Task& task(TaskId id) const { return graph->tasks[id]; }
  void wake_all() const;
};

/// What one step takes and gives; the order is that of the graph's inputs and results: whole
/// tensors, of a region the rank's own parts.
struct StepCall {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> results;
  const Observer* observer = nullptr;
};

/// threads  made and run by the thread of its rank, with a barrier of all ranks after each of:
/// constructor, find_pulls, bind, run
class RankProgram {
 public:
  /// Allocates the arena and knows where every register lies.
  RankProgram(BoundProgram& program, int rank_index);
  /// Of a region, whose arena is lent; and so are its variables, before each run.
  RankProgram(BoundProgram& program, int rank_index, std::byte* arena);

  /// Fills this rank's part of BoundProgram::actors.
  void find_pulls();
  /// Makes actors, binds kernels and plans copies.  requires  every rank has found its pulls
  void bind();

  /// One step. A failure goes to the stop state, and wakes all.  memory  allocates nothing from the
  /// second step on
  void run(const StepCall& call);

  /// From the next step on what it does is written down; nullptr: it is not. `recorder` outlives
  /// the steps.
  void record_into(Recorder* recorder);

  /// Between steps: takes the messages that came in and says whether all its slots are home.
  bool drained();

  /// Of all that the network fills and empties, its own too.
  Bytes arena_bytes() const;
  /// The pieces of an ask and the slot that they lie in.
  std::optional<ProgramPort::Answer> answer(const FetchRequest& request) const;
  /// `ready` goes to another member.
  void note_filled(const Message& ready);
  /// A message from another rank.  threads  any
  void take(const Message& message) { mailbox_->push(message); }
  /// Exchanges of other ranks that may be answered at the same time with pieces that are packed,
  /// and the largest of these.
  std::pair<int, Bytes> packing() const;
  /// Makes the groups of exchanges that are the transport's, with their other members.
  ///   requires  all members have bound their ranks, and call it for the same programs in the same
  ///   order
  void join_groups();
  /// Looks at the stop state again, here and in the regions.
  void wake();

 private:
  /// A value that a While carries.
  struct Carried {
    int64_t bytes = 0;
    bool begins_as_zero = false;  // of a sum of iterations: another process, or another
                                  // micro-batch, has what it began with
  };
  struct Step {
    BoundKernel kernel;  // nothing to run when all results are empty here
    const KernelStep* source = nullptr;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    std::vector<RankProgram*> regions;  // of a While or an If
    std::vector<Carried> carried;       // of a While
  };
  /// A box between a register and a tensor of the caller.
  struct Transfer {
    RegisterIndex reg;
    size_t tensor = 0;  // place among the inputs or results of the step
    BoxCombine copy;
  };
  struct Pulling {
    std::vector<int> senders;               // rank index by input port
    std::vector<const std::byte*> sources;  // by input port
    std::vector<BoxCombine> boxes;
    std::optional<ReduceOp> identity;  // this rank holds the neutral element of a new Partial
    std::unique_ptr<FarPulls> far =
        nullptr;  // what comes from other members; their sources come behind the ports
    std::optional<Collective> collective =
        std::nullopt;  // what the transport does for it, in this group
    int group = -1;
  };
  /// What an exchange of another member gets of this rank.
  struct Sent {
    std::vector<SentPiece> pieces;
    RegisterIndex from;
    int64_t filled = 0;  // records; guarded by the network, which asks and tells one at a time
  };
  struct Plan {
    Actor actor;
    std::vector<Step> steps;
    std::vector<Transfer> transfers;
    Pulling pulling;
    std::vector<Overwrite> overwrites;
  };

  bool acts_in(const Task& task) const { return coordinates_[task.mesh].has_value(); }
  /// Where this rank stands in the mesh of a register that it holds.
  const Coordinate& coordinate(const Register& reg) const { return *coordinates_[reg.mesh]; }

  // rank_bind.cpp
  bool finds_pulls_of(int receiver) const;
  void find_registers();
  std::byte* variable_part(const Register& reg) const;
  void make_regions();
  Plan make_plan(TaskId id) const;
  std::vector<Carried> plan_carried(const KernelStep& step) const;
  Step bind_step(const KernelStep& step) const;
  std::vector<Transfer> plan_feed(const Task& task) const;
  std::vector<Transfer> plan_fetch(const Task& task) const;
  Pulling plan_pulling(TaskId id) const;

  // rank_far.cpp: what goes between members
  TravellingPulls travelling_pulls(TaskId id, int receiver) const;
  void plan_far(TaskId id, Pulling& pulling) const;
  void plan_answers();
  std::vector<SentPiece> pieces_for(TaskId id, int receiver) const;
  bool combine_far(const Task& task, Plan& plan, std::byte* target, const StepCall& call);
  bool await(const Task& task, const StepCall& call, std::string_view what,
             const std::function<bool()>& has_news, const std::function<bool()>& go_on);
  bool wait_for_message(std::chrono::steady_clock::time_point end) const;
  size_t inbound_capacity() const;
  size_t outbound_capacity() const;

  // rank_collective.cpp
  std::optional<Collective> plan_collective(TaskId id) const;
  bool run_collective(const Task& task, Plan& plan, std::byte* target, const StepCall& call);

  // rank_ahead.cpp
  void make_ahead();
  void make_staging();
  bool go_ahead(int places_over, const StepCall& call);
  bool advance(AheadExchange& exchange, const StepCall& call, TaskStream stream);
  bool ask_ahead(AheadExchange& exchange, Plan& plan, TaskStream stream);
  void end_ahead(AheadExchange& exchange, Plan& plan, const StepCall& call, TaskStream stream);
  bool finish_ahead(AheadExchange& exchange, const StepCall& call);
  bool has_news_ahead() const;
  std::string wait_text_of(const AheadExchange& exchange, const Plan& plan) const;

  // rank_run.cpp
  bool may_act(const Plan& plan) const;
  bool are_handed_back(const Plan& plan) const;
  bool wait_to_act(const Task& task, const Plan& plan, const StepCall& call);
  bool has_drained() const;
  std::chrono::steady_clock::time_point deadline() const;
  std::string drain_text() const;
  void receive_messages();
  bool act(const Task& task, Plan& plan, const StepCall& call);
  void end_act(const Task& task, Plan& plan, Recorder::Time begin, TaskStream stream);
  void place_slots(const Task& task, const Plan& plan, const Act& act);
  void find_sources(const Task& task, Plan& plan, const Act& act) const;
  bool act_in_order(const StepCall& call);
  bool run_steps(const Task& task, Plan& plan, const StepCall& call);
  bool run_pulling(const Task& task, Plan& plan, const Act& act, const StepCall& call);
  void run_feed(const Task& task, const Plan& plan, const StepCall& call);
  void run_fetch(const Plan& plan, const StepCall& call);
  void observe(const StepCall& call, RegisterIndex reg) const { observe(call, reg, current_[reg]); }
  void observe(const StepCall& call, RegisterIndex reg, const std::byte* data) const;
  void send(const Message& message);

  // rank_streams.cpp
  bool is_on_device(const Register& reg) const;
  RankDevice& device() const { return *(*program_.devices)[index_]; }
  void make_streams();
  bool act_on_streams(const StepCall& call);
  bool go_on_streams(const StepCall& call);
  bool advance(RankStream& stream, const StepCall& call, bool& has_moved);
  int host_place() const;
  void begin_on_device(RankStream& stream, const Task& task, Plan& plan, const StepCall& call);
  void launch_copy(RankStream& stream, const Task& task) const;
  void launch_steps(RankStream& stream, Plan& plan, const StepCall& call);
  void end_on_device(RankStream& stream, const StepCall& call);
  void let_streams_end();
  void record_wait_of_streams(Recorder::Time begin);
  void check_that_a_device_works() const;
  void observe_on_device(const StepCall& call, RegisterIndex reg, const std::byte* data) const;

  // rank_control.cpp: these return false when the run stops
  bool run_control(Step& step);
  bool run_while(Step& step);
  bool run_if(Step& step);
  /// The memory of variable `index` in the runs that follow.
  void lend(int variable, std::byte* memory);
  /// Waits until no other rank reads what the last runs made.
  bool drain();
  std::string failing_op() const;

  // rank_record.cpp
  Recorder::Time now() const { return recorder_ ? Recorder::now() : Recorder::Time(); }
  void record_wait(const Task& task, const Plan& plan, Recorder::Time begin);
  void record_act(const Task& task, int64_t record, Recorder::Time begin, TaskStream stream);
  Recorder::Time record_kernel(const Task& task, const KernelStep& step, const Plan& plan,
                               Recorder::Time begin);

  // wait_text.cpp
  std::string wait_text(const Plan& plan) const;
  std::string who(ActorId actor) const;
  std::string place_text() const;

  Plan& plan(TaskId id) { return plans_[id]; }
  const Plan& plan(TaskId id) const { return plans_[id]; }
  std::byte* slot_data(RegisterIndex reg, int slot) const;

  BoundProgram& program_;
  int index_;
  Rank rank_;
  IndexedVector<MeshIndex, std::optional<Coordinate>>
      coordinates_;                                       // none where this rank is not in it
  IndexedVector<MeshIndex, AlignedBuffer> arenas_;        // none of a region, nor of devices
  IndexedVector<MeshIndex, DeviceMemory> device_arenas_;  // of devices
  std::byte* lent_arena_ = nullptr;                       // of a region
  IndexedVector<RegisterIndex, std::byte*> base_;         // its first slot
  IndexedVector<RegisterIndex, std::byte*> current_;      // the slot of the act that runs
  IndexedVector<TaskId, Plan> plans_;
  std::map<const Control*, std::vector<RankProgram*>> regions_;
  AlignedBuffer staging_;            // of the exchange whose turn it is, and of those ahead of it
  int64_t staging_stride_ = 0;       // bytes of one of them
  std::map<ActorId, Sent> answers_;  // by exchange of another member
  AheadExchanges ahead_;
  std::unique_ptr<Mailbox> mailbox_;
  std::vector<std::unique_ptr<RankStream>>
      streams_;  // none: the thread of the rank does all, in the order of the order list
  std::vector<Message> sent_;  // reused
  std::atomic<int> place_{
      -1};  // in the order list, for the others' messages; -1 before the first step
  const std::string* op_ = nullptr;  // of the kernel that runs
  RankProgram* region_ = nullptr;    // that runs
  Countdown together_{
      0};  // of the exchange that the transport does: here, since a run that stops leaves it
  Recorder* recorder_ = nullptr;  // none: nothing is written down
};

}  // namespace tessera
