#include "task_graph/tasks/check.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace task_checks {
namespace {

template <typename T>
bool has_repeats(std::vector<T> list) {
  std::sort(list.begin(), list.end());
  return std::adjacent_find(list.begin(), list.end()) != list.end();
}

void check_order(const TaskGraph& graph) {
  std::vector<TaskId> sorted = graph.order;
  std::sort(sorted.begin(), sorted.end());
  const auto all = graph.tasks.indices();
  ensure(std::equal(sorted.begin(), sorted.end(), all.begin(), all.end()), [&] {
    return "task graph: the order list names every task once: " +
           std::to_string(graph.order.size()) + " entries for " +
           std::to_string(graph.tasks.size()) + " tasks";
  });
}

void check_register(const TaskGraph& graph, const RegisterForm& reg) {
  const auto is_on_its_mesh = [&] {
    const MeshPtr& mesh = graph.meshes[reg.mesh];
    return reg.attr.mesh == mesh || (reg.attr.mesh && *reg.attr.mesh == *mesh);
  };
  if (!graph.meshes.contains(reg.mesh) || !is_on_its_mesh()) offence(reg, "is on another mesh");
  if (reg.attr.dims.size() != static_cast<size_t>(reg.type->shape.size()))
    offence(reg, "has placements of another number of dims");
  if (reg.slots < 1) offence(reg, "has no slot");
  if (reg.storage == Register::Storage::kVariable &&
      (reg.variable < 0 || reg.variable >= std::ssize(graph.variables)))
    offence(reg, "is in a variable that does not exist");
}

/// A task acts on the mesh of what it reads and writes; only an exchange may read from another one,
/// and a copy has one end on each of two.
void check_mesh(const TaskGraph& graph, const Task& task) {
  if (!graph.meshes.contains(task.mesh)) offence(task, "is on a mesh that does not exist");
  const auto check_on_mesh = [&](std::span<const RegisterIndex> list) {
    for (RegisterIndex reg : list)
      if (register_at(graph, reg).mesh != task.mesh)
        offence(task, "is on another mesh than " + register_at(graph, reg).name);
  };
  const bool is_copy = task.kind == Task::Kind::kCopy;
  if (task.kind != Task::Kind::kExchange && !is_copy) check_on_mesh(task.inputs);
  if (!is_copy) check_on_mesh(task.outputs);
  check_on_mesh(task.overwrites);
}

void check_task_form(const TaskForm& task) {
  const bool is_compute = task.kind == Task::Kind::kCompute;
  if (is_compute && !(task.inputs.empty() && task.outputs.empty()))
    offence(task, "is a compute task and lists registers, which its steps say");
  if (has_repeats(task.inputs)) offence(task, "names an input twice");
}

void check_task(const TaskGraph& graph, const Task& task) {
  for (RegisterIndex reg : task.overwrites)
    if (!graph.registers.contains(reg))
      offence(task, "names a register that does not exist as overwritten");
  if (!task.issue_after.is_none() &&
      (task.kind != Task::Kind::kExchange || !graph.tasks.contains(task.issue_after)))
    offence(task, "has an issue point that does not exist, or is no exchange");
  check_mesh(graph, task);
}

void check_filled(const TaskGraph& graph) {
  for (const Register& reg : graph.registers)
    if (reg.producer.is_none()) offence(reg, "is filled by no task");
  for (const Task& task : graph.tasks)
    for (const KernelStep& step : task.steps)
      if (!step.workspace.is_none() && !register_at(graph, step.workspace).consumers.empty())
        offence(register_at(graph, step.workspace), "is a workspace and has consumers");
}

void check_read(const TaskGraph& graph, const TaskPositions& position) {
  for (TaskId t : graph.tasks.indices())
    for (RegisterIndex input : task_at(graph, t).inputs)
      if (const Register reg = register_at(graph, input); position[reg.producer] >= position[t])
        offence(reg, "is read by " + task_at(graph, t).name + " before it is filled");
}

void check_part(const TaskGraph& graph, const Task& task, size_t part) {
  const Exchange& exchange = task.parts[part].exchange;
  const Register from = register_at(graph, task.inputs[part]);
  const Register to = register_at(graph, task.outputs[part]);
  if (!(from.type == to.type))
    offence(task, "turns " + to_text(from.type) + " into " + to_text(to.type));
  if (!(exchange.from == from.attr))
    offence(task, "takes " + to_text(from.attr) + " as " + to_text(exchange.from));
  if (!(exchange.to == to.attr))
    offence(task, "gives " + to_text(to.attr) + " as " + to_text(exchange.to));
  if (from.mesh != register_at(graph, task.inputs[0]).mesh) offence(task, "reads from two meshes");
  if (exchange.kind != task.parts[0].exchange.kind)
    offence(task, "is " + std::string(to_text(task.parts[0].exchange.kind)) + " and " +
                      std::string(to_text(exchange.kind)) + " at once");
}

void check_exchange(const TaskGraph& graph, const Task& task) {
  const size_t count = task.parts.size();
  if (count == 0 || task.inputs.size() != count || task.outputs.size() != count)
    offence(task, "is an exchange and has not one input and one output for each of its " +
                      std::to_string(count) + " parts");
  for (size_t i = 0; i < count; ++i) check_part(graph, task, i);
}

/// From a device to its host or back, or from a host to a file or back, and all of it.
void check_copy(const TaskGraph& graph, const Task& task) {
  if (task.inputs.size() != 1 || task.outputs.size() != 1)
    offence(task, "is a copy and has not one input and one output");
  const Register from = register_at(graph, task.inputs[0]),
                 to = register_at(graph, task.outputs[0]);
  if (!(from.type == to.type && from.attr == to.attr && from.micro_batch == to.micro_batch &&
        from.chunk == to.chunk))
    offence(task, "copies " + to_text(from.type, from.attr) + " into " + to_text(to.type, to.attr));
  const DeviceKind a = device_of(graph, from.mesh), b = device_of(graph, to.mesh);
  if ((a == DeviceKind::kHost) == (b == DeviceKind::kHost))
    offence(task, "is a copy and is not between a device or a file and its host");
  const bool is_of_device = is_accelerator(a) || is_accelerator(b);
  if (task.mesh != (is_of_device && a != DeviceKind::kHost ? from.mesh : to.mesh))
    offence(task, "is a copy and is not on the mesh of its device, or of its target");
}

/// The thread of a rank works in the memory of its host, and nothing computes in a file.
void check_memory_of(const TaskGraph& graph, const Task& task) {
  if (device_of(graph, task.mesh) == DeviceKind::kFile && task.kind == Task::Kind::kCompute)
    offence(task, "computes in a file");
  if (device_of(graph, task.mesh) == DeviceKind::kHost || task.kind == Task::Kind::kCompute ||
      task.kind == Task::Kind::kCopy)
    return;
  if (task.kind == Task::Kind::kExchange) offence(task, "exchanges registers of devices");
  for (std::span<const RegisterIndex> list : {task.inputs, task.outputs})
    for (RegisterIndex reg : list)
      if (register_at(graph, reg).storage != Register::Storage::kVariable)
        offence(task, "takes or gives " + register_at(graph, reg).name + ", which is on a device");
}

/// Only what a loop carries may be partial, and only of a sum, to which its iterations add.
void check_carried(const TaskGraph& graph, const Task& task, const KernelStep& step) {
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const Register before = register_at(graph, step.inputs[i]),
                   after = register_at(graph, step.outputs[i]);
    if (before.type != after.type || before.attr.dims != after.attr.dims)
      offence(task, "carries " + to_text(before.type, before.attr) + " as " +
                        to_text(after.type, after.attr));
    for (const PartialAxis& partial : after.attr.partial)
      if (partial.reduce != ReduceOp::kSum)
        offence(task, "carries '" + after.name + "', partial of another reduction than a sum");
  }
}

void check_region(const TaskGraph& graph, const Task& task, const KernelStep& step,
                  const TaskGraph& region) {
  check_indices(region);
  check_links(region);
  check_kinds(region, true);
  check_memory(region);
  if (region.meshes.size() != 1 || !(*region.meshes.front() == *graph.meshes[task.mesh]))
    offence(task, "has a region on another mesh");
  const std::vector<RegisterIndex> outer = region_variables(step);
  if (!region.inputs.empty() || region.variables.size() != outer.size())
    offence(task, "has a region of other operands");
  const auto check_equal = [&](const Register& inside, RegisterIndex outside) {
    const Register reg = register_at(graph, outside);
    if (inside.type != reg.type || !(inside.attr == reg.attr))
      offence(task, "has '" + inside.name + "' " + to_text(inside.type, inside.attr) +
                        " in a region in the place of " + to_text(reg.type, reg.attr));
  };
  for (size_t i = 0; i < outer.size(); ++i)
    check_equal(register_at(region, region.variables[i].value), outer[i]);
  if (step.control->kind == Control::Kind::kWhile) return;
  if (region.results.size() != step.outputs.size()) offence(task, "has a region of other results");
  for (size_t i = 0; i < step.outputs.size(); ++i)
    check_equal(register_at(region, region.results[i].second), step.outputs[i]);
}

/// The one bool by which all ranks go the same way.
bool is_predicate(const Register& reg) {
  return reg.type == TensorType{DType::kBool, {}} && reg.attr.is_replicated();
}

void check_control(const TaskGraph& graph, const Task& task, const KernelStep& step) {
  const Control& control = *step.control;
  if (device_of(graph, task.mesh) != DeviceKind::kHost) offence(task, "runs regions on a device");
  if (task.steps.size() != 1) offence(task, "does more than the one While or If");
  if (control.regions.size() != 2 || control.offsets.size() != 2)
    offence(task, "has not two regions");
  const bool is_loop = control.kind == Control::Kind::kWhile;
  if (is_loop ? step.inputs.size() < step.outputs.size() : step.inputs.empty())
    offence(task, "has too few operands");
  for (RegisterIndex input : step.inputs)
    if (!register_at(graph, input).attr.partial.empty())
      offence(task, "reads partial values of '" + register_at(graph, input).name + "'");
  if (is_loop) check_carried(graph, task, step);
  for (const TaskGraph& region : control.regions) check_region(graph, task, step, region);
  const TaskGraph& first = control.regions.front();
  if (is_loop && (first.results.size() != 1 || !control.regions[1].results.empty()))
    offence(task, "has a region of other results");
  if (!is_predicate(is_loop ? register_at(first, first.results[0].second)
                            : register_at(graph, step.inputs[0])))
    offence(task, "has no predicate that every rank holds");
  const Bytes lent = step.workspace.is_none() ? Bytes(0) : register_at(graph, step.workspace).size;
  if (control.workspace() > lent) offence(task, "has regions that do not fit into its workspace");
}

void check_task_kind(const TaskGraph& graph, const Task& task) {
  if (task.kind != Task::Kind::kCompute && !task.steps.empty())
    offence(task, "is no compute task and has steps");
  if (task.kind == Task::Kind::kExchange) check_exchange(graph, task);
  if (task.kind == Task::Kind::kCopy) check_copy(graph, task);
  check_memory_of(graph, task);
  for (const KernelStep& step : task.steps)
    if (step.control) check_control(graph, task, step);
  if (task.kind == Task::Kind::kFeed && !task.inputs.empty())
    offence(task, "is a feed and takes registers");
  if (task.kind == Task::Kind::kFetch && !task.outputs.empty())
    offence(task, "is a fetch and gives registers");
}

/// The feed fills whole values, each rank its own box.
void check_fed(const TaskGraph& graph, const std::string& name, RegisterIndex index) {
  ensure(graph.registers.contains(index),
         [&] { return "task graph: '" + name + "' names a register that does not exist"; });
  const Register reg = register_at(graph, index);
  if (task_at(graph, reg.producer).kind != Task::Kind::kFeed)
    offence(reg, "is an input or a variable and is not filled by a feed");
}

void check_variable(const TaskGraph& graph, size_t index) {
  const TaskVariable& variable = graph.variables[index];
  check_fed(graph, variable.name, variable.value);
  const Register value = register_at(graph, variable.value);
  // The partial values of zero are zeros; those of another value are not determined.
  if (!value.attr.partial.empty() && !(variable.initializer == Initializer::constant(0)))
    offence(value, "is a variable that does not begin as zero and Partial");
  if (value.storage != Register::Storage::kVariable || value.variable != static_cast<int>(index))
    offence(value, "is a variable and is stored elsewhere");
}

void check_feed_outputs(const TaskGraph& graph) {
  IndexedVector<RegisterIndex, bool> known(graph.registers.size(), false);
  for (const TaskInput& input : graph.inputs)
    if (!register_at(graph, input.value).attr.partial.empty())
      offence(register_at(graph, input.value), "is an input and Partial");
  for (const TaskInput& input : graph.inputs) known[input.value] = true;
  for (const TaskVariable& variable : graph.variables) known[variable.value] = true;
  for (const Task& task : graph.tasks)
    for (RegisterIndex output : task.outputs)
      if (task.kind == Task::Kind::kFeed && !known[output])
        offence(task,
                "feeds " + register_at(graph, output).name + ", which is no input and no variable");
}

void check_result(const TaskGraph& graph, const std::string& name, RegisterIndex index,
                  bool is_region) {
  ensure(graph.registers.contains(index),
         [&] { return "task graph: result '" + name + "' names a register that does not exist"; });
  const Register reg = register_at(graph, index);
  if (!reg.attr.partial.empty() && !is_region)
    offence(reg, "is the result " + name + " and Partial");
  const auto is_fetch = [&](TaskId task) {
    return task_at(graph, task).kind == Task::Kind::kFetch;
  };
  if (std::none_of(reg.consumers.begin(), reg.consumers.end(), is_fetch))
    offence(reg, "is the result " + name + " and no fetch takes it");
}

}  // namespace

void offence(const Task& task, const std::string& what) {
  throw InternalError("task graph: " + std::string(to_text(task.kind)) + " '" + task.name + "' " +
                      what);
}

void offence(const TaskForm& task, const std::string& what) {
  throw InternalError("task graph: " + std::string(to_text(task.kind)) + " '" +
                      task.name.with("i") + "' " + what);
}

void offence(const RegisterForm& reg, const std::string& what) {
  throw InternalError("task graph: register '" + reg.name.with("i") + "' " + what);
}

void offence(const Register& reg, const std::string& what) {
  throw InternalError("task graph: register '" + reg.name + "' " + what);
}

TaskPositions positions(const TaskGraph& graph) {
  TaskPositions position(graph.tasks.size());
  int next = 0;
  for (TaskId task : graph.order) position[task] = next++;
  return position;
}

void check_indices(const TaskGraph& graph) {
  ensure(!graph.meshes.empty() &&
             std::find(graph.meshes.begin(), graph.meshes.end(), nullptr) == graph.meshes.end(),
         "task graph: it has no mesh");
  ensure(graph.arenas.size() == graph.meshes.size(), "task graph: each mesh has an arena");
  ensure(graph.devices.empty() || graph.devices.size() == graph.meshes.size(),
         "task graph: each mesh has a kind of device");
  check_order(graph);
  for (const RegisterForm& reg : graph.registers.forms()) check_register(graph, reg);
  for (const TaskForm& task : graph.tasks.forms()) check_task_form(task);
  for (const Task& task : graph.tasks) check_task(graph, task);
}

void check_links(const TaskGraph& graph) {
  check_filled(graph);
  check_read(graph, positions(graph));
}

void check_kinds(const TaskGraph& graph, bool is_region) {
  for (const Task& task : graph.tasks) check_task_kind(graph, task);
  for (const TaskInput& input : graph.inputs) check_fed(graph, input.name, input.value);
  for (size_t v = 0; v < graph.variables.size(); ++v) check_variable(graph, v);
  check_feed_outputs(graph);
  for (const auto& [name, reg] : graph.results) check_result(graph, name, reg, is_region);
}

}  // namespace task_checks

void check(const TaskGraph& graph) {
  task_checks::check_indices(graph);
  task_checks::check_links(graph);
  task_checks::check_kinds(graph);
  task_checks::check_memory(graph);
}

}  // namespace tessera
