#include "compiler/lower/internal/make_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/shared_bytes.h"
#include "task_graph/tasks/required_anti_dependences.h"

namespace tessera {
namespace {

/// The registers over whose bytes the tasks of a graph write.
class Overwrites {
 public:
  ///   read  the registers that other ranks or streams read
  Overwrites(const TaskGraph& graph, const std::vector<RegisterIndex>& read)
      : graph_(graph),
        written_by_(graph.tasks.size()),
        shared_(graph.registers, read),
        listed_(graph.registers.size(), 0) {
    for (RegisterIndex reg : graph.registers.indices())
      if (const TaskId producer = graph.registers[reg].producer; !producer.is_none())
        written_by_[producer].push_back(reg);
  }

  /// Those of one task, each once, without those that are released.
  std::vector<RegisterIndex> at(TaskId t) {
    const Task writer = graph_.tasks[t];
    std::vector<RegisterIndex> list;
    ++lists_;
    const auto add = [&](RegisterIndex reg) {
      if (std::exchange(listed_[reg], lists_) != lists_) list.push_back(reg);
    };
    for (RegisterIndex written : written_by_[t]) {
      const Register target = graph_.registers[written];
      const bool is_variable = target.storage == Register::Storage::kVariable;
      // A feed only makes a variable readable; it writes nothing over it.
      if (writer.kind == Task::Kind::kFeed && is_variable) continue;
      // A copy into a variable runs beside the kernels that read its old value.
      if (writer.kind == Task::Kind::kCopy && is_variable)
        add(graph_.variables[target.variable].value);
      for (RegisterIndex reg : shared_.with(written))
        if (reg != written && !(writer.kind == Task::Kind::kCompute && is_filled_by_copy(reg)))
          add(reg);
    }
    return list;
  }

  /// Is it in an arena, filled by a copy? A kernel that writes over it has read it, or comes after
  /// a kernel of its stream that has.
  bool is_filled_by_copy(RegisterIndex reg) const {
    const Register filled = graph_.registers[reg];
    return filled.storage == Register::Storage::kArena &&
           graph_.tasks[filled.producer].kind == Task::Kind::kCopy;
  }

  void release(RegisterIndex reg) {
    shared_.hide(reg);
    released_.push_back(reg);
  }
  void fill(RegisterIndex reg) { shared_.show(reg); }
  void fill_all() {
    for (RegisterIndex reg : std::exchange(released_, {})) shared_.show(reg);
  }

 private:
  const TaskGraph& graph_;
  IndexedVector<TaskId, std::vector<RegisterIndex>> written_by_;
  SharedBytes shared_;
  std::vector<RegisterIndex> released_;  // since fill_all
  int64_t lists_ = 0;
  IndexedVector<RegisterIndex, int64_t> listed_;  // in which list it was last
};

/// Which instructions are a task together. They are the same in all micro-batches: a task ends
/// where it has to in one of them.
class Chains {
 public:
  ///   begins  by time: whether the instance cannot be in the task of the one before it
  Chains(const Program& program, const InstanceOrder& order,
         const IndexedVector<Time, bool>& begins)
      : program_(program),
        before_(program.instructions.size()),
        next_(program.instructions.size()) {
    const auto before = [&](Time t) {
      return begins[t] ? InstructionIndex() : order[t - 1].instruction;
    };
    const bool has_one = !program.rolled || program.rolled->micro_batches == 1;
    const auto is_first = [&](Time t) { return order[t].micro_batch == 0 && !has_one; };
    IndexedVector<InstructionIndex, char> is_known(program.instructions.size(), 0);
    for (Time t : order.indices()) {
      if (is_first(t)) continue;
      InstructionIndex& known = before_[order[t].instruction];
      known = std::exchange(is_known[order[t].instruction], 1) && known != before(t)
                  ? InstructionIndex()
                  : before(t);
    }
    // The sums are missing in the first micro-batch.
    for (Time t : order.indices()) {
      InstructionIndex& known = before_[order[t].instruction];
      if (!is_first(t) || known.is_none()) continue;
      const InstructionIndex called = last_called(known);
      if (!called.is_none() && called != before(t)) known = {};
    }
    for (InstructionIndex i : before_.indices())
      if (!before_[i].is_none()) next_[before_[i]] = i;
  }

  /// The first instruction of the task.
  InstructionIndex first(InstructionIndex instruction) const {
    while (!before_[instruction].is_none()) instruction = before_[instruction];
    return instruction;
  }
  /// The one after it in the task; or none.
  InstructionIndex next_after(InstructionIndex instruction) const { return next_[instruction]; }
  /// Is it the first one of the task in a micro-batch?
  bool begins(InstructionIndex instruction, bool is_in_first_micro_batch) const {
    const InstructionIndex before = before_[instruction];
    return before.is_none() || (is_in_first_micro_batch && last_called(before).is_none());
  }

 private:
  /// The last instruction up to this one of the task that the first micro-batch has; or none.
  InstructionIndex last_called(InstructionIndex instruction) const {
    while (!instruction.is_none() && is_sum_over_micro_batches(program_.instructions[instruction]))
      instruction = before_[instruction];
    return instruction;
  }

  const Program& program_;
  IndexedVector<InstructionIndex, InstructionIndex> before_, next_;  // in its task; or none
};

class TaskMaker {
 public:
  TaskMaker(Program program, const ArenaPlans& arenas, const TaskGroups& groups)
      : program_(std::move(program)),
        uses_(program_),
        groups_(groups),
        group_of_(program_.instructions.size()),
        form_of_(program_.instructions.size()) {
    graph_.meshes = program_.meshes;
    graph_.devices = program_.devices;
    graph_.kernels = program_.kernels;
    for (const ArenaPlan& arena : arenas) graph_.arenas.push_back(arena.size);
    for (InstructionIndex i : program_.instructions.indices())
      if (const KernelForm* kernel = program_.instructions[i].kernel())
        group_of_[i] = groups_.at(kernel->op);
  }

  TaskGraph run() {
    for (MeshIndex mesh : program_.meshes.indices()) make_feed(mesh);
    make_feeds_of_micro_batches();
    const Chains chains(program_, order(), begins_of_tasks());
    if (order().empty()) add_feeds_before(Time(0));
    for (Time t : order().indices()) {
      add_feeds_before(t);
      add_instance(chains, t);
    }
    for (MeshIndex mesh : program_.meshes.indices()) make_fetch(mesh);
    program_.instructions = {};
    name_registers();
    link(graph_);
    for (TaskId task : graph_.tasks.indices()) graph_.order.push_back(task);
    add_overwrites();
    return std::move(graph_);
  }

 private:
  const InstanceOrder& order() const { return uses_.order(); }
  const RegisterInstances& registers() const { return uses_.registers(); }

  bool is_on(RegisterFormIndex reg, MeshIndex mesh) const {
    return program_.registers[reg].mesh == mesh;
  }

  // ---- feeds and fetches ----

  void make_feed(MeshIndex mesh) {
    TaskForm feed;
    feed.name = "feed";
    feed.kind = Task::Kind::kFeed;
    feed.mesh = mesh;
    for (const ProgramInput& input : program_.inputs)
      if (is_on(input.value, mesh) && !is_of_each(input)) feed.outputs.push_back(input.value);
    for (const ProgramVariable& variable : program_.variables)
      if (is_on(variable.value, mesh)) feed.outputs.push_back(variable.value);
    graph_.tasks.push_back(std::move(feed));
  }

  bool is_of_each(const ProgramInput& input) const {
    return program_.registers[input.value].micro_batch.index >= 0;
  }

  /// The inputs of a micro-batch are fed right before their first reader: a feed for those that
  /// have the same one in each micro-batch.
  void make_feeds_of_micro_batches() {
    std::map<std::pair<MeshIndex, std::vector<Time>>, std::vector<RegisterFormIndex>> fed;
    for (const ProgramInput& input : program_.inputs) {
      if (!is_of_each(input)) continue;
      std::vector<Time> positions;
      for (RegisterIndex reg : registers().at(input.value))
        positions.push_back(feed_position(uses_, reg));
      fed[{program_.registers[input.value].mesh, positions}].push_back(input.value);
    }
    for (auto& [place, inputs] : fed) {
      TaskForm feed;
      feed.name = "feed #" + std::string(1, kMicroBatchMark);
      feed.kind = Task::Kind::kFeed;
      feed.mesh = place.first;
      const MicroBatch first = program_.registers[inputs.front()].micro_batch;
      feed.outputs = std::move(inputs);
      const TaskFormIndex form = graph_.tasks.add_form(std::move(feed));
      const std::vector<Time>& positions = place.second;
      for (size_t i = 0; i < positions.size(); ++i)
        fed_before_[positions[i]].push_back(
            {form, program_.rolled ? static_cast<int>(i) : first.index});
    }
  }

  void add_feeds_before(Time time) {
    const auto fed = fed_before_.find(time);
    if (fed == fed_before_.end()) return;
    for (const TaskInstance& feed : fed->second) graph_.tasks.add(feed);
  }

  void make_fetch(MeshIndex mesh) {
    TaskForm fetch;
    fetch.name = "fetch";
    fetch.kind = Task::Kind::kFetch;
    fetch.mesh = mesh;
    for (const auto& [name, reg] : program_.results)
      if (is_on(reg, mesh) &&
          std::find(fetch.inputs.begin(), fetch.inputs.end(), reg) == fetch.inputs.end())
        fetch.inputs.push_back(reg);
    graph_.tasks.push_back(std::move(fetch));
  }

  // ---- tasks of instructions ----

  /// By time: what cannot be in the task of the instance before it.
  IndexedVector<Time, bool> begins_of_tasks() const {
    IndexedVector<Time, bool> begins(order().size(), true);
    const IndexedVector<Time, bool> is_issue_point = issue_points();
    int group = 0;  // of the last kernel that has one
    for (Time t : order().indices()) {
      const InstructionIndex i = order()[t].instruction;
      const int last = std::exchange(group, group_of_[i].value_or(group));
      if (t > Time(0) && group == last && !is_issue_point[t - 1] && !fed_before_.contains(t))
        begins[t] = !may_follow(order()[t - 1], order()[t]);
    }
    return begins;
  }

  bool may_follow(const InstructionInstance& before, const InstructionInstance& instance) const {
    const Instruction &a = program_.instructions[before.instruction],
                      &b = program_.instructions[instance.instruction];
    return !groups_.are_single() && a.kernel() && b.kernel() && !a.kernel()->control &&
           !b.kernel()->control && a.role == b.role && a.mesh == b.mesh && a.stage == b.stage &&
           before.micro_batch == instance.micro_batch && before.pass == instance.pass;
  }

  /// Is an instance the issue point of an exchange within its mesh? Then its task ends with it. An
  /// exchange from another mesh is issued when a pass ends there, so it needs no such end.
  IndexedVector<Time, bool> issue_points() const {
    IndexedVector<Time, bool> are_points(order().size(), false);
    for (const InstructionInstance& instance : order()) {
      if (instance.issue_after.is_none()) continue;
      const Instruction& instruction = program_.instructions[instance.instruction];
      if (is_on(instruction.exchange()->source(), instruction.mesh))
        are_points[instance.issue_after] = true;
    }
    return are_points;
  }

  void add_instance(const Chains& chains, Time t) {
    const InstructionInstance& instance = order()[t];
    const bool is_first =
        program_.rolled && program_.rolled->micro_batches > 1 && instance.micro_batch == 0;
    if (chains.begins(instance.instruction, is_first)) {
      TaskInstance task{.form = form_of(chains, instance.instruction),
                        .micro_batch = instance.micro_batch,
                        .pass = instance.pass};
      if (!instance.issue_after.is_none()) task.issue_after = task_of_[instance.issue_after];
      graph_.tasks.add(task);
    }
    task_of_.push_back(graph_.tasks.end_index() - 1);
  }

  TaskFormIndex form_of(const Chains& chains, InstructionIndex instruction) {
    const InstructionIndex first = chains.first(instruction);
    TaskFormIndex& form = form_of_[first];
    if (form.is_none()) form = graph_.tasks.add_form(make_form(chains, first));
    return form;
  }

  TaskForm make_form(const Chains& chains, InstructionIndex first) {
    Instruction& instruction = program_.instructions[first];
    TaskForm task;
    task.role = instruction.role;
    task.mesh = instruction.mesh;
    if (ExchangeStep* exchange = instruction.exchange()) {
      const std::string target = program_.registers[exchange->target()].name.text();
      std::string name = std::string(to_text(exchange->kind())) + " " + target;
      if (exchange->parts.size() > 1)
        name += " and " + std::to_string(exchange->parts.size() - 1) + " more";
      task.name = std::move(name);
      task.kind = Task::Kind::kExchange;
      task.parts = std::move(exchange->parts);
      task.inputs = std::move(exchange->sources);
      task.outputs = std::move(exchange->targets);
    } else if (const CopyStep* copy = instruction.copy()) {
      task.name = "copy " + program_.registers[copy->target].name.text();
      task.kind = Task::Kind::kCopy;
      task.inputs = {copy->source};
      task.outputs = {copy->target};
    } else {
      task.name = instruction.kernel()->op;
      for (InstructionIndex i = first; !i.is_none(); i = chains.next_after(i))
        task.steps.push_back(take_kernel(program_.instructions[i]));
      task.steps.shrink_to_fit();  // large graphs have a million kernels
    }
    return task;
  }

  KernelForm take_kernel(Instruction& instruction) const {
    KernelForm kernel = std::move(*instruction.kernel());
    if (!instruction.by_micro_batch || registers().micro_batches() == 1) return kernel;
    KernelVariation variation{instruction.by_micro_batch->int_steps, {}};
    if (const auto& control = instruction.by_micro_batch->control)
      for (int i = 0; i < registers().micro_batches(); ++i)
        variation.controls.push_back(i == 0 ? kernel.control : control(i));
    kernel.variation = std::make_shared<const KernelVariation>(std::move(variation));
    return kernel;
  }

  // ---- registers ----

  void name_registers() {
    for (const ProgramInput& input : program_.inputs)
      for (RegisterIndex reg : registers().at(input.value))
        graph_.inputs.push_back({input.name, reg, input.type});
    for (const ProgramVariable& variable : program_.variables)
      graph_.variables.push_back(
          {variable.name, registers().whole(variable.value), variable.initializer});
    for (const auto& [name, reg] : program_.results)
      graph_.results.emplace_back(name, registers().whole(reg));
    if (program_.offsets.empty()) program_.offsets.assign(registers().size(), 0);
    graph_.registers =
        RegisterTable(std::move(program_.registers), registers(), std::move(program_.offsets));
  }

  bool is_in_arena(RegisterIndex reg) const {
    return graph_.registers[reg].storage == Register::Storage::kArena;
  }

  /// The registers that other ranks or streams read, and those that copies fill in an arena, where
  /// other copies may write over them; ascending.
  std::vector<RegisterIndex> read_elsewhere() const {
    std::vector<RegisterIndex> list;
    for (const Task& task : graph_.tasks)
      if (task.kind == Task::Kind::kCopy && is_in_arena(task.outputs.front()))
        list.push_back(task.outputs.front());
    for (const Task& task : graph_.tasks)
      if (task.kind == Task::Kind::kExchange || task.kind == Task::Kind::kCopy)
        list.insert(list.end(), task.inputs.begin(), task.inputs.end());
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

  /// Other ranks may still read the source of an exchange when this rank has gone on: a task that
  /// writes over its bytes waits for them, also one that comes earlier in the order list, in the
  /// next step. Most of these registers are those for which an earlier task of its stream has
  /// waited. An exchange that may be issued before its turn and a copy into an arena wait for all
  /// by themselves, and no other task relies on them.
  void add_overwrites() {
    Overwrites overwrites(graph_, read_elsewhere());
    std::map<std::pair<MeshIndex, TaskStream>, std::vector<TaskId>> streams;
    for (TaskId t : graph_.order) {
      const Task task = graph_.tasks[t];
      if (task.kind == Task::Kind::kCopy && is_in_arena(task.outputs.front())) {
        graph_.tasks.overwrites(t) = overwrites.at(t);
        std::erase_if(graph_.tasks.overwrites(t),
                      [&](RegisterIndex reg) { return graph_.registers[reg].consumers.empty(); });
      } else if (task.issue_after.is_none()) {
        streams[{task.mesh, stream_of(graph_, task)}].push_back(t);
      } else {
        graph_.tasks.overwrites(t) = overwrites.at(t);
      }
    }
    for (const auto& [place, stream] : streams) {
      std::vector<std::vector<RegisterIndex>> needed =
          required_anti_dependences(graph_, stream,
                                    {[&](TaskId task) { return overwrites.at(task); },
                                     [&](RegisterIndex reg) { overwrites.release(reg); },
                                     [&](RegisterIndex reg) { overwrites.fill(reg); }});
      overwrites.fill_all();
      for (size_t i = 0; i < stream.size(); ++i) {
        needed[i].shrink_to_fit();
        graph_.tasks.overwrites(stream[i]) = std::move(needed[i]);
      }
    }
  }

  Program program_;
  const InstanceUses uses_;
  TaskGraph graph_;
  const TaskGroups& groups_;
  IndexedVector<InstructionIndex, std::optional<int>> group_of_;  // of kernels of ops
  IndexedVector<InstructionIndex, TaskFormIndex> form_of_;  // by first instruction of the task
  std::map<Time, std::vector<TaskInstance>> fed_before_;    // feeds of micro-batches
  IndexedVector<Time, TaskId> task_of_;
};

}  // namespace

TaskGraph make_tasks(Program program, const ArenaPlans& arenas, const TaskGroups& groups) {
  return TaskMaker(std::move(program), arenas, groups).run();
}

}  // namespace tessera
