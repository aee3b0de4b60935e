#include "tasks/hand_made.h"

#include <algorithm>
#include <utility>

namespace tessera {

HandMade::HandMade(MeshPtr mesh) {
  graph_.meshes = {std::move(mesh)};
  graph_.arenas = {Bytes(0)};
  add_task("feed", Task::Kind::kFeed, {});
}

TaskId HandMade::add_task(const std::string& name, Task::Kind kind, std::vector<RegisterIndex> inputs) {
  const auto id = static_cast<TaskId>(graph_.tasks.size());
  Task& task = graph_.tasks.emplace_back();
  task.name = name;
  task.kind = kind;
  task.inputs = std::move(inputs);
  graph_.order.push_back(id);
  return id;
}

RegisterIndex HandMade::add_register(const std::string& name, const TensorType& type, const DistAttr& attr, TaskId producer, int variable) {
  Register reg;
  reg.name = name;
  reg.type = type;
  reg.attr = attr;
  reg.size = byte_size({type.dtype, attr.largest_shape(type.shape)});
  reg.producer = producer;
  reg.variable = variable;
  if (variable >= 0) {
    reg.storage = Register::Storage::kVariable;
  } else {
    reg.offset = graph_.arenas[0].value();
    graph_.arenas[0] += slot_stride(reg);
  }
  const auto index = static_cast<RegisterIndex>(graph_.registers.size());
  graph_.registers.push_back(std::move(reg));
  graph_.tasks[static_cast<size_t>(producer)].outputs.push_back(index);
  return index;
}

RegisterIndex HandMade::input(const std::string& name, const std::string& type) {
  const DistType parsed = parse_dist_type(type, graph_.meshes[0]);
  const RegisterIndex value = add_register(name, parsed.type, parsed.attr, 0);
  graph_.inputs.push_back({name, value, parsed.type});
  return value;
}

RegisterIndex HandMade::variable(const std::string& name, const std::string& type, const Initializer& initializer) {
  const DistType parsed = parse_dist_type(type, graph_.meshes[0]);
  const RegisterIndex value = add_register(name, parsed.type, parsed.attr, 0, static_cast<int>(graph_.variables.size()));
  graph_.variables.push_back({name, value, initializer});
  return value;
}

RegisterIndex HandMade::add_compute(const std::string& name, KernelCall call, std::vector<RegisterIndex> inputs, const DistType& type,
                                    int variable) {
  const TaskId id = add_task(name, Task::Kind::kCompute, inputs);
  const RegisterIndex result = add_register(name, type.type, type.attr, id, variable);
  graph_.tasks.back().steps.push_back({std::move(call), std::move(inputs), {result}, -1, name});
  return result;
}

RegisterIndex HandMade::compute(const std::string& name, KernelCall call, std::vector<RegisterIndex> inputs, const std::string& type) {
  return add_compute(name, std::move(call), std::move(inputs), parse_dist_type(type, graph_.meshes[0]), -1);
}

RegisterIndex HandMade::update(const std::string& name, KernelCall call, std::vector<RegisterIndex> inputs, RegisterIndex variable) {
  const Register old = graph_.registers[static_cast<size_t>(variable)];
  const RegisterIndex result = add_compute(name, std::move(call), std::move(inputs), {old.type, old.attr}, old.variable);
  graph_.tasks.back().overwrites.push_back(variable);
  return result;
}

RegisterIndex HandMade::exchange_to(const std::string& name, RegisterIndex from, const Exchange& exchange) {
  const TensorType type = graph_.registers[static_cast<size_t>(from)].type;
  const TaskId id = add_task(name, Task::Kind::kExchange, {from});
  graph_.tasks.back().exchange = exchange;
  return add_register(name + " " + to_text(exchange.to), type, exchange.to, id);
}

RegisterIndex HandMade::exchange(const std::string& name, RegisterIndex from, const std::string& type) {
  const DistType parsed = parse_dist_type(type, graph_.meshes[0]);
  const DistAttr attr = graph_.registers[static_cast<size_t>(from)].attr;
  return exchange_to(name, from, {classify(parsed.type.shape, attr, parsed.attr), attr, parsed.attr});
}

RegisterIndex HandMade::reshard(const std::string& name, RegisterIndex from, const std::string& type) {
  const DistType parsed = parse_dist_type(type, graph_.meshes[0]);
  const DistAttr attr = graph_.registers[static_cast<size_t>(from)].attr;
  for (const Exchange& exchange : plan_reshard(parsed.type, attr, parsed.attr)) from = exchange_to(name, from, exchange);
  return from;
}

void HandMade::result(const std::string& name, RegisterIndex reg) {
  graph_.results.emplace_back(name, reg);
}

TaskGraph HandMade::finish() {
  std::vector<RegisterIndex> taken;
  for (const auto& [name, reg] : graph_.results)
    if (std::find(taken.begin(), taken.end(), reg) == taken.end()) taken.push_back(reg);
  add_task("fetch", Task::Kind::kFetch, std::move(taken));
  for (size_t t = 0; t < graph_.tasks.size(); ++t)
    for (RegisterIndex input : graph_.tasks[t].inputs)
      graph_.registers[static_cast<size_t>(input)].consumers.push_back(static_cast<TaskId>(t));
  return std::exchange(graph_, {});
}

}  // namespace tessera
