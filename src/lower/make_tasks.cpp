#include <algorithm>
#include <set>

#include "base/error.h"
#include "lower/lower.h"
#include "schedule/order.h"

namespace tessera {
namespace {

class TaskMaker {
 public:
  TaskMaker(Program program, const ArenaPlans& arenas) : program_(std::move(program)) {
    graph_.meshes = program_.meshes;
    graph_.devices = program_.devices;
    graph_.kernels = program_.kernels;
    for (const ArenaPlan& arena : arenas) graph_.arenas.push_back(arena.size);
    is_waited_for_.assign(program_.instructions.size(), false);
    for (const Instruction& instruction : program_.instructions)
      if (instruction.issue_after >= 0 && is_on(instruction.source, instruction.mesh))
        is_waited_for_[instruction.issue_after] = true;
  }

  TaskGraph run() {
    for (MeshIndex mesh : program_.meshes.indices()) make_feed(mesh);
    const std::vector<int> first_reads = first_readers_of_inputs(program_);
    if (program_.instructions.empty())
      for (MeshIndex mesh : program_.meshes.indices()) make_feed_before(0, mesh, first_reads);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      for (MeshIndex mesh : program_.meshes.indices())
        make_feed_before(static_cast<int>(i), mesh, first_reads);
      Instruction& instruction = program_.instructions[i];
      ends_task_ = i > 0 && is_waited_for_[i - 1];
      if (instruction.is_exchange)
        add_exchange(instruction);
      else if (instruction.is_copy)
        add_copy(instruction);
      else
        add_kernel(instruction);
      task_of_.push_back(graph_.tasks.end_index() - 1);
    }
    for (MeshIndex mesh : program_.meshes.indices()) make_fetch(mesh);
    graph_.registers = std::move(program_.registers);
    graph_.variables = std::move(program_.variables);
    graph_.inputs = std::move(program_.inputs);
    graph_.results = std::move(program_.results);
    connect();
    add_overwrites();
    graph_.order = program_order(graph_);
    return std::move(graph_);
  }

 private:
  bool is_on(RegisterIndex reg, MeshIndex mesh) const {
    return program_.registers[reg].mesh == mesh;
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
    graph_.tasks.push_back(std::move(feed));
  }

  int micro_batch_of(const TaskInput& input) const {
    return program_.registers[input.value].micro_batch.index;
  }

  /// What the inputs have for one micro-batch comes right before it is read first.
  void make_feed_before(int instruction, MeshIndex mesh, const std::vector<int>& first_reads) {
    Task feed;
    feed.kind = Task::Kind::kFeed;
    feed.mesh = mesh;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const TaskInput& input = program_.inputs[i];
      if (first_reads[i] != instruction || !is_on(input.value, mesh) || micro_batch_of(input) < 0)
        continue;
      feed.micro_batch = micro_batch_of(input);
      feed.outputs.push_back(input.value);
    }
    if (feed.outputs.empty()) return;
    feed.name = "feed #" + std::to_string(feed.micro_batch);
    graph_.tasks.push_back(std::move(feed));
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
    graph_.tasks.push_back(std::move(fetch));
  }

  void add_exchange(Instruction& instruction) {
    Task task;
    task.name = std::string(to_text(instruction.exchange.kind)) + " " +
                program_.registers[instruction.target].name;
    task.kind = Task::Kind::kExchange;
    task.role = instruction.role;
    task.micro_batch = instruction.micro_batch;
    task.pass = instruction.pass;
    task.mesh = instruction.mesh;
    task.exchange = std::move(instruction.exchange);
    task.reason = std::move(instruction.reason);
    if (instruction.issue_after >= 0) task.issue_after = task_of_[instruction.issue_after];
    task.inputs = {instruction.source};
    task.outputs = {instruction.target};
    graph_.tasks.push_back(std::move(task));
  }

  void add_copy(const Instruction& instruction) {
    Task task;
    task.name = "copy " + program_.registers[instruction.target].name;
    task.kind = Task::Kind::kCopy;
    task.role = instruction.role;
    task.micro_batch = instruction.micro_batch;
    task.pass = instruction.pass;
    task.mesh = instruction.mesh;
    task.inputs = {instruction.source};
    task.outputs = {instruction.target};
    graph_.tasks.push_back(std::move(task));
  }

  void add_kernel(Instruction& instruction) {
    const Task& last = graph_.tasks.back();
    if (ends_task_ || last.kind != Task::Kind::kCompute || instruction.step.control ||
        (!last.steps.empty() && last.steps.back().control) || last.role != instruction.role ||
        last.mesh != instruction.mesh || last.micro_batch != instruction.micro_batch ||
        last_stage_ != instruction.stage || last.pass != instruction.pass) {
      Task task;
      task.name = instruction.step.op;
      task.kind = Task::Kind::kCompute;
      task.role = instruction.role;
      task.micro_batch = instruction.micro_batch;
      task.pass = instruction.pass;
      task.mesh = instruction.mesh;
      graph_.tasks.push_back(std::move(task));
    }
    graph_.tasks.back().steps.push_back(std::move(instruction.step));
    last_stage_ = instruction.stage;
  }

  /// Producers, consumers, and what each compute task takes in and gives out.
  void connect() {
    for (TaskId t : graph_.tasks.indices()) {
      Task& task = graph_.tasks[t];
      for (const KernelStep& step : task.steps) {
        for (RegisterIndex reg : step.inputs) read(t, reg);
        for (RegisterIndex reg : step.outputs) graph_.registers[reg].producer = t;
        if (!step.workspace.is_none()) graph_.registers[step.workspace].producer = t;
        // A copy of the old value may be under way beside the order list: the feed of this step
        // says that it could begin.
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
    if (std::find(reg.consumers.begin(), reg.consumers.end(), t) != reg.consumers.end()) return;
    reg.consumers.push_back(t);
    if (task.kind == Task::Kind::kCompute) task.inputs.push_back(index);
  }

  /// Other ranks may read a register that an exchange takes from long after this rank has
  /// gone on: whoever writes over its bytes waits for them. Also in the next step, for what comes
  /// earlier in the order.
  void add_overwrites() {
    std::vector<RegisterIndex> remote;
    for (const Task& task : graph_.tasks)
      if (task.kind == Task::Kind::kExchange || task.kind == Task::Kind::kCopy)
        remote.push_back(task.inputs.front());
    std::sort(remote.begin(), remote.end());
    remote.erase(std::unique(remote.begin(), remote.end()), remote.end());
    for (RegisterIndex written : graph_.registers.indices()) {
      const Register& target = graph_.registers[written];
      if (target.producer.is_none()) continue;
      Task& writer = graph_.tasks[target.producer];
      auto& overwrites = writer.overwrites;
      // A copy into a variable runs beside the kernels that read its old value.
      if (writer.kind == Task::Kind::kCopy && target.storage == Register::Storage::kVariable)
        overwrites.push_back(graph_.variables[target.variable].value);
      for (RegisterIndex reg : remote)
        if (reg != written && target.mesh == graph_.registers[reg].mesh &&
            share_bytes(target, graph_.registers[reg]) &&
            std::find(overwrites.begin(), overwrites.end(), reg) == overwrites.end())
          overwrites.push_back(reg);
    }
    // A feed only makes a variable readable; it writes nothing over it.
    for (Task& task : graph_.tasks)
      if (task.kind == Task::Kind::kFeed)
        std::erase_if(task.overwrites, [&](RegisterIndex reg) {
          return graph_.registers[reg].storage == Register::Storage::kVariable;
        });
  }

  static bool share_bytes(const Register& a, const Register& b) {
    if (a.storage != b.storage) return false;
    if (a.storage == Register::Storage::kVariable) return a.variable == b.variable;
    return a.offset < b.offset + b.size.value() && b.offset < a.offset + a.size.value();
  }

  Program program_;
  TaskGraph graph_;
  /// By instruction: an exchange may begin behind it that pulls from its own mesh. What comes from
  /// another one has its passes to look at: they are handed over as they end.
  std::vector<bool> is_waited_for_;
  std::vector<TaskId> task_of_;  // by instruction
  bool ends_task_ = false;       // the instruction before the next one
  StageIndex last_stage_{0};
};

}  // namespace

TaskGraph make_tasks(Program program, const ArenaPlans& arenas) {
  return TaskMaker(std::move(program), arenas).run();
}

}  // namespace tessera
