#include "lower/make_tasks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "lower/program_uses.h"
#include "lower/shared_bytes.h"
#include "schedule/order.h"
#include "tasks/needed_overwrites.h"

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
  std::vector<RegisterIndex> of(TaskId t) {
    const Task& writer = graph_.tasks[t];
    std::vector<RegisterIndex> list;
    ++lists_;
    const auto add = [&](RegisterIndex reg) {
      if (std::exchange(listed_[reg], lists_) != lists_) list.push_back(reg);
    };
    for (RegisterIndex written : written_by_[t]) {
      const Register& target = graph_.registers[written];
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

  /// Is it in an arena, filled by a copy? A kernel that writes over it has read it, or comes behind
  /// a kernel of its stream that has.
  bool is_filled_by_copy(RegisterIndex reg) const {
    const Register& filled = graph_.registers[reg];
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
  IndexedVector<RegisterIndex, int64_t> listed_;  // in which list it was at last
};

class TaskMaker {
 public:
  TaskMaker(Program program, const ArenaPlans& arenas, const TaskGroups& groups)
      : program_(std::move(program)), groups_(groups) {
    graph_.meshes = program_.meshes;
    graph_.devices = program_.devices;
    graph_.kernels = program_.kernels;
    for (const ArenaPlan& arena : arenas) graph_.arenas.push_back(arena.size);
    is_issue_point_.assign(program_.instructions.size(), false);
    for (InstructionIndex i : program_.instructions.indices()) {
      const InstructionIndex point = issue_point(i);
      if (point.is_none()) continue;
      const Instruction& instruction = program_.instructions[i];
      if (is_on(instruction.exchange()->source(), instruction.mesh)) is_issue_point_[point] = true;
    }
  }

  TaskGraph run() {
    for (MeshIndex mesh : program_.meshes.indices()) make_feed(mesh);
    find_feed_positions();
    if (program_.instructions.empty()) make_feeds_before(InstructionIndex(0));
    for (InstructionIndex i : program_.instructions.indices()) {
      make_feeds_before(i);
      Instruction& instruction = program_.instructions[i];
      ends_task_ = i > InstructionIndex(0) && is_issue_point_[i - 1];
      if (ExchangeStep* exchange = instruction.exchange())
        add_exchange(instruction, *exchange, issue_point(i));
      else if (const CopyStep* copy = instruction.copy())
        add_copy(instruction, *copy);
      else
        add_kernel(instruction, *instruction.kernel());
      task_of_.push_back(graph_.tasks.end_index() - 1);
    }
    for (MeshIndex mesh : program_.meshes.indices()) make_fetch(mesh);
    program_.instructions = {};
    graph_.registers = std::move(program_.registers);
    graph_.variables = std::move(program_.variables);
    graph_.inputs = std::move(program_.inputs);
    graph_.results = std::move(program_.results);
    connect();
    graph_.order = program_order(graph_);
    add_overwrites();
    return std::move(graph_);
  }

 private:
  bool is_on(RegisterIndex reg, MeshIndex mesh) const {
    return program_.registers[reg].mesh == mesh;
  }

  bool is_in_arena(RegisterIndex reg) const {
    return graph_.registers[reg].storage == Register::Storage::kArena;
  }

  /// The instruction behind which an exchange may be issued; none: it is issued at its turn.
  InstructionIndex issue_point(InstructionIndex exchange) const {
    const Time time(exchange.value());  // the instructions are in their order
    return program_.order.empty() ? InstructionIndex()
                                  : InstructionIndex(program_.order[time].issue_after.value());
  }

  /// Large graphs have a million steps: those of a task take no more memory than they need.
  void add_task(Task task) {
    if (!graph_.tasks.empty()) graph_.tasks.back().steps.shrink_to_fit();
    graph_.tasks.push_back(std::move(task));
  }

  void make_feed(MeshIndex mesh) {
    Task feed;
    feed.name = "feed";
    feed.kind = Task::Kind::kFeed;
    feed.mesh = mesh;
    for (const TaskInput& input : program_.inputs)
      if (is_on(input.value, mesh) && micro_batch_of(input) < 0)
        feed.outputs.push_back(input.value);
    for (const TaskVariable& variable : program_.variables)
      if (is_on(variable.value, mesh)) feed.outputs.push_back(variable.value);
    add_task(std::move(feed));
  }

  int micro_batch_of(const TaskInput& input) const {
    return program_.registers[input.value].micro_batch.index;
  }

  void find_feed_positions() {
    const ProgramUses uses(program_);
    for (const TaskInput& input : program_.inputs)
      if (micro_batch_of(input) >= 0)
        fed_before_[feed_position(uses, input.value)].push_back(input.value);
  }

  /// The inputs of one micro-batch are fed right before their first reader.
  void make_feeds_before(InstructionIndex instruction) {
    const auto fed = fed_before_.find(instruction);
    if (fed == fed_before_.end()) return;
    for (MeshIndex mesh : program_.meshes.indices()) make_feed_of(fed->second, mesh);
  }

  void make_feed_of(const std::vector<RegisterIndex>& inputs, MeshIndex mesh) {
    Task feed;
    feed.kind = Task::Kind::kFeed;
    feed.mesh = mesh;
    for (RegisterIndex input : inputs) {
      if (!is_on(input, mesh)) continue;
      feed.micro_batch = program_.registers[input].micro_batch.index;
      feed.outputs.push_back(input);
    }
    if (feed.outputs.empty()) return;
    feed.name = "feed #" + std::to_string(feed.micro_batch);
    add_task(std::move(feed));
  }

  void make_fetch(MeshIndex mesh) {
    Task fetch;
    fetch.name = "fetch";
    fetch.kind = Task::Kind::kFetch;
    fetch.mesh = mesh;
    for (const auto& [name, reg] : program_.results)
      if (is_on(reg, mesh) &&
          std::find(fetch.inputs.begin(), fetch.inputs.end(), reg) == fetch.inputs.end())
        fetch.inputs.push_back(reg);
    add_task(std::move(fetch));
  }

  static Task task_in_pass_of(const Instruction& instruction, Task::Kind kind, std::string name) {
    Task task;
    task.name = std::move(name);
    task.kind = kind;
    task.role = instruction.role;
    task.micro_batch = instruction.micro_batch;
    task.pass = instruction.pass;
    task.mesh = instruction.mesh;
    return task;
  }

  void add_exchange(const Instruction& instruction, ExchangeStep& step, InstructionIndex point) {
    std::string name =
        std::string(to_text(step.kind())) + " " + program_.registers[step.target()].name;
    if (step.parts.size() > 1) name += " and " + std::to_string(step.parts.size() - 1) + " more";
    Task task = task_in_pass_of(instruction, Task::Kind::kExchange, std::move(name));
    task.parts = std::move(step.parts);
    if (!point.is_none()) task.issue_after = task_of_[point];
    task.inputs = std::move(step.sources);
    task.outputs = std::move(step.targets);
    add_task(std::move(task));
  }

  void add_copy(const Instruction& instruction, const CopyStep& step) {
    Task task = task_in_pass_of(instruction, Task::Kind::kCopy,
                                "copy " + program_.registers[step.target].name);
    task.inputs = {step.source};
    task.outputs = {step.target};
    add_task(std::move(task));
  }

  void add_kernel(const Instruction& instruction, KernelStep& step) {
    const Task& last = graph_.tasks.back();
    const int group = groups_.of(step.op).value_or(last_group_);
    if (ends_task_ || groups_.are_single() || group != last_group_ ||
        last.kind != Task::Kind::kCompute || step.control ||
        (!last.steps.empty() && last.steps.back().control) || last.role != instruction.role ||
        last.mesh != instruction.mesh || last.micro_batch != instruction.micro_batch ||
        last_stage_ != instruction.stage || last.pass != instruction.pass)
      add_task(task_in_pass_of(instruction, Task::Kind::kCompute, step.op));
    graph_.tasks.back().steps.push_back(std::move(step));
    last_stage_ = instruction.stage;
    last_group_ = group;
  }

  /// Producers, consumers, and what each compute task takes in and gives out.
  void connect() {
    for (TaskId t : graph_.tasks.indices()) {
      Task& task = graph_.tasks[t];
      for (const KernelStep& step : task.steps) {
        for (RegisterIndex reg : step.inputs) read(t, reg);
        for (RegisterIndex reg : step.outputs) graph_.registers[reg].producer = t;
        if (!step.workspace.is_none()) graph_.registers[step.workspace].producer = t;
        // A copy of the old value may be in flight on another stream: the feed of this step made
        // it readable.
        for (RegisterIndex reg : step.outputs)
          if (device_of(graph_, task.mesh) != DeviceKind::kHost &&
              graph_.registers[reg].variable >= 0)
            read(t, graph_.variables[graph_.registers[reg].variable].value);
      }
      for (RegisterIndex reg : task.outputs) graph_.registers[reg].producer = t;
      if (task.kind != Task::Kind::kCompute)
        for (RegisterIndex reg : task.inputs) read(t, reg);
    }
    for (Task& task : graph_.tasks) {
      if (task.kind != Task::Kind::kCompute) continue;
      for (const KernelStep& step : task.steps)
        for (RegisterIndex reg : step.outputs)
          if (!graph_.registers[reg].consumers.empty()) task.outputs.push_back(reg);
    }
  }

  void read(TaskId t, RegisterIndex index) {
    Register& reg = graph_.registers[index];
    Task& task = graph_.tasks[t];
    if (reg.producer == t) return;  // made by an earlier step of the same task
    if (!reg.consumers.empty() && reg.consumers.back() == t) return;  // tasks come in order
    reg.consumers.push_back(t);
    if (task.kind == Task::Kind::kCompute) task.inputs.push_back(index);
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
      Task& task = graph_.tasks[t];
      if (task.kind == Task::Kind::kCopy && is_in_arena(task.outputs.front())) {
        task.overwrites = overwrites.of(t);
        std::erase_if(task.overwrites,
                      [&](RegisterIndex reg) { return graph_.registers[reg].consumers.empty(); });
      } else if (task.issue_after.is_none()) {
        streams[{task.mesh, stream_of(graph_, task)}].push_back(t);
      } else {
        task.overwrites = overwrites.of(t);
      }
    }
    for (const auto& [place, stream] : streams) {
      std::vector<std::vector<RegisterIndex>> needed =
          needed_overwrites(graph_, stream,
                            {[&](TaskId task) { return overwrites.of(task); },
                             [&](RegisterIndex reg) { overwrites.release(reg); },
                             [&](RegisterIndex reg) { overwrites.fill(reg); }});
      overwrites.fill_all();
      for (size_t i = 0; i < stream.size(); ++i) {
        needed[i].shrink_to_fit();
        graph_.tasks[stream[i]].overwrites = std::move(needed[i]);
      }
    }
  }

  Program program_;
  TaskGraph graph_;
  /// Is the instruction the issue point of an exchange within its mesh? Then its task ends with it.
  /// An exchange from another mesh is issued when a pass ends there, so it needs no such end.
  IndexedVector<InstructionIndex, bool> is_issue_point_;
  /// By instruction: the inputs of one micro-batch that are fed right before it.
  std::map<InstructionIndex, std::vector<RegisterIndex>> fed_before_;
  IndexedVector<InstructionIndex, TaskId> task_of_;
  bool ends_task_ = false;  // the instruction before the next one is an issue point
  StageIndex last_stage_{0};
  const TaskGroups& groups_;
  int last_group_ = 0;
};

}  // namespace

TaskGraph make_tasks(Program program, const ArenaPlans& arenas, const TaskGroups& groups) {
  return TaskMaker(std::move(program), arenas, groups).run();
}

}  // namespace tessera
