#include "sharding/propagation/module_marks.h"

#include <algorithm>
#include <unordered_map>

#include "base/text/name_pattern.h"

namespace tessera {
namespace {

/// The shortest beginning of the name, before a point, that matches; "" when there is none.
std::string module_name(const NamePattern& pattern, const std::string& op) {
  for (size_t point = op.find('.'); point != std::string::npos; point = op.find('.', point + 1))
    if (std::string name = op.substr(0, point); pattern.matches(name)) return name;
  return "";
}

bool is_of(const Graph& graph, OpId op, const Module& module) {
  const Op& found = graph.op(op);
  return found.role == Role::kForward && found.name.starts_with(module.name + ".");
}

bool is_output(const Graph& graph, ValueId value) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](const auto& output) { return output.second == value; });
}

void add_once(std::vector<ValueId>& list, ValueId value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

void add_ends(const Graph& graph, Module& module) {
  for (const OpId id : module.ops) {
    for (const ValueId input : graph.op(id).inputs) {
      const OpId producer = graph.value(input).producer;
      const bool is_inside = producer.index >= 0 && is_of(graph, producer, module);
      if (!is_inside && !graph.variable_of(input)) add_once(module.inputs, input);
    }
    for (const ValueId output : graph.op(id).outputs) {
      const std::vector<OpId>& users = graph.value(output).users;
      const bool leaves = std::any_of(users.begin(), users.end(), [&](OpId user) {
        return graph.op(user).role == Role::kForward && !is_of(graph, user, module);
      });
      if (leaves || is_output(graph, output)) add_once(module.outputs, output);
    }
  }
}

}  // namespace

std::vector<Module> modules_of(const Graph& graph, const std::string& pattern) {
  const NamePattern compared(pattern);
  std::vector<Module> modules;
  std::unordered_map<std::string, size_t> positions;
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    if (graph.op({i}).role != Role::kForward) continue;
    const std::string name = module_name(compared, graph.op({i}).name);
    if (name.empty()) continue;
    const auto [found, is_new] = positions.try_emplace(name, modules.size());
    if (is_new) modules.push_back({name, {}, {}, {}});
    modules[found->second].ops.push_back({i});
  }
  for (Module& module : modules) add_ends(graph, module);
  return modules;
}

std::vector<OpId> ops_in_modules(const Graph& graph, const std::string& pattern) {
  const NamePattern compared(pattern);
  std::vector<OpId> ops;
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    if (!module_name(compared, graph.op({i}).name).empty()) ops.push_back({i});
  return ops;
}

}  // namespace tessera
