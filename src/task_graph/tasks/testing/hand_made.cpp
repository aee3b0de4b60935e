#include "task_graph/tasks/testing/hand_made.h"

#include <algorithm>
#include <utility>

namespace tessera {

namespace {

/// Each once, in the order of their first places.
std::vector<RegisterIndex> without_repeats(const std::vector<RegisterIndex>& list) {
  std::vector<RegisterIndex> found;
  for (RegisterIndex reg : list)
    if (std::find(found.begin(), found.end(), reg) == found.end()) found.push_back(reg);
  return found;
}

/// Each register has a form of its own.
std::vector<RegisterFormIndex> forms_of(const TaskGraph& graph,
                                        const std::vector<RegisterIndex>& list) {
  std::vector<RegisterFormIndex> forms;
  for (RegisterIndex reg : list) forms.push_back(graph.registers.numbering().form_of(reg));
  return forms;
}

}  // namespace

HandMade::HandMade(MeshPtr mesh) {
  place_on(mesh);
}

MeshIndex HandMade::find_mesh(const Mesh& mesh) const {
  for (MeshIndex i : graph_.meshes.indices())
    if (*graph_.meshes[i] == mesh) return i;
  return MeshIndex();
}

void HandMade::place_on(const MeshPtr& mesh) {
  mesh_ = find_mesh(*mesh);
  if (!mesh_.is_none()) return;
  mesh_ = graph_.meshes.push_back(mesh);
  graph_.arenas.emplace_back(0);
  feeds_.push_back(add_task("feed", Task::Kind::kFeed, mesh_, {}));
}

TaskId HandMade::add_task(const std::string& name, Task::Kind kind, MeshIndex mesh,
                          std::vector<RegisterIndex> inputs) {
  const TaskId id = graph_.tasks.push_back(
      {.name = name, .kind = kind, .mesh = mesh, .inputs = forms_of(graph_, inputs)});
  graph_.order.push_back(id);
  return id;
}

RegisterIndex HandMade::add_register(const std::string& name, const TensorType& type,
                                     const DistAttr& attr, TaskId producer, int variable) {
  RegisterForm reg;
  reg.name = name;
  reg.type = type;
  reg.attr = attr;
  reg.size = byte_size({type.dtype, attr.largest_shape(type.shape)});
  reg.mesh = graph_.tasks[producer].mesh;
  reg.variable = variable;
  int64_t offset = 0;
  if (variable >= 0) {
    reg.storage = Register::Storage::kVariable;
  } else {
    Bytes& arena = graph_.arenas[reg.mesh];
    offset = arena.value();
    arena += slot_stride(reg);
  }
  const RegisterIndex index = graph_.registers.push_back(std::move(reg), offset);
  TaskForm& task = graph_.tasks.form(producer);
  if (task.kind != Task::Kind::kCompute)
    task.outputs.push_back(graph_.registers.numbering().form_of(index));
  return index;
}

RegisterIndex HandMade::input(const std::string& name, const std::string& type) {
  const DistType parsed = parse_dist_type(type, mesh());
  const RegisterIndex value = add_register(name, parsed.type, parsed.attr, feeds_[mesh_]);
  graph_.inputs.push_back({name, value, parsed.type});
  return value;
}

RegisterIndex HandMade::variable(const std::string& name, const std::string& type,
                                 const Initializer& initializer) {
  const DistType parsed = parse_dist_type(type, mesh());
  const TaskId feed = feeds_[mesh_];
  const RegisterIndex value =
      add_register(name, parsed.type, parsed.attr, feed, static_cast<int>(graph_.variables.size()));
  graph_.variables.push_back({name, value, initializer});
  return value;
}

RegisterIndex HandMade::add_compute(const std::string& name, KernelCall call,
                                    std::vector<RegisterIndex> inputs, const DistType& type,
                                    int variable) {
  const TaskId id = add_task(name, Task::Kind::kCompute, mesh_, {});
  const RegisterIndex result = add_register(name, type.type, type.attr, id, variable);
  graph_.tasks.form(id).steps.push_back({.call = std::move(call),
                                         .inputs = forms_of(graph_, inputs),
                                         .outputs = forms_of(graph_, {result}),
                                         .workspace = {},
                                         .op = name});
  return result;
}

RegisterIndex HandMade::compute(const std::string& name, KernelCall call,
                                std::vector<RegisterIndex> inputs, const std::string& type) {
  return add_compute(name, std::move(call), std::move(inputs), parse_dist_type(type, mesh()), -1);
}

RegisterIndex HandMade::update(const std::string& name, KernelCall call,
                               std::vector<RegisterIndex> inputs, RegisterIndex variable) {
  const RegisterForm old = form(variable);
  const RegisterIndex result =
      add_compute(name, std::move(call), std::move(inputs), {old.type, old.attr}, old.variable);
  graph_.tasks.overwrites(graph_.tasks.end_index() - 1).push_back(variable);
  return result;
}

RegisterIndex HandMade::exchange_to(const std::string& name, RegisterIndex from,
                                    const Exchange& exchange) {
  const TensorType type = graph_.registers[from].type;
  const TaskId id = add_task(name, Task::Kind::kExchange, find_mesh(*exchange.to.mesh), {from});
  graph_.tasks.form(id).parts = {{exchange, ""}};
  return add_register(name + " " + to_text(exchange.to), type, exchange.to, id);
}

RegisterIndex HandMade::exchange(const std::string& name, RegisterIndex from,
                                 const std::string& type) {
  const DistType parsed = parse_dist_type(type, mesh());
  const DistAttr attr = graph_.registers[from].attr;
  return exchange_to(name, from,
                     {classify(parsed.type.shape, attr, parsed.attr), attr, parsed.attr});
}

std::vector<RegisterIndex> HandMade::exchange(const std::string& name,
                                              const std::vector<RegisterIndex>& from,
                                              const std::vector<std::string>& types) {
  const TaskId id = add_task(name, Task::Kind::kExchange, mesh_, from);
  std::vector<RegisterIndex> made;
  for (size_t i = 0; i < from.size(); ++i) {
    const DistType to = parse_dist_type(types[i], mesh());
    graph_.tasks.form(id).parts.push_back(
        {classified(to.type.shape, graph_.registers[from[i]].attr, to.attr), ""});
    const std::string target = graph_.registers[from[i]].name + " " + to_text(to.attr);
    made.push_back(add_register(target, to.type, to.attr, id));
  }
  return made;
}

RegisterIndex HandMade::reshard(const std::string& name, RegisterIndex from,
                                const std::string& type) {
  const DistType parsed = parse_dist_type(type, mesh());
  const DistAttr attr = graph_.registers[from].attr;
  for (const Exchange& exchange : plan_reshard(parsed.type, attr, parsed.attr))
    from = exchange_to(name, from, exchange);
  return from;
}

void HandMade::result(const std::string& name, RegisterIndex reg) {
  graph_.results.emplace_back(name, reg);
}

TaskGraph HandMade::finish() {
  IndexedVector<MeshIndex, std::vector<RegisterIndex>> taken(graph_.meshes.size());
  for (const auto& [name, reg] : graph_.results) taken[graph_.registers[reg].mesh].push_back(reg);
  for (MeshIndex mesh : taken.indices())
    add_task("fetch", Task::Kind::kFetch, mesh, without_repeats(taken[mesh]));
  link(graph_);
  return std::exchange(graph_, {});
}

}  // namespace tessera
