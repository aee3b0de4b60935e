#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/text/text.h"
#include "kernels/bind.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {
namespace {

template <class List>
std::string names(const TaskGraph& graph, const List& list) {
  std::vector<std::string> parts;
  for (RegisterIndex reg : list) parts.push_back(graph.registers.at(reg).name);
  return join(parts, ", ");
}

std::string place_text(const TaskGraph& graph, const Register& reg) {
  if (reg.storage == Register::Storage::kVariable)
    return "variable " + graph.variables.at(reg.variable).name;
  const std::string slots = reg.slots == 1 ? "" : std::to_string(reg.slots) + " x ";
  return "arena " + std::to_string(reg.offset) + " + " + slots + std::to_string(reg.size.value());
}

std::string register_line(const TaskGraph& graph, const Register& reg) {
  return "  " + reg.name + ": " + to_text(reg.type, reg.attr) + " at " + place_text(graph, reg) +
         "\n";
}

/// "2", or "(2:1)" with weights.
std::string parts_text(const AxisPart& axis) {
  std::vector<std::string> weights;
  for (int64_t weight : axis.weights) weights.push_back(std::to_string(weight));
  return weights.empty() ? std::to_string(axis.parts) : "(" + join(weights, ":") + ")";
}

/// "begin(16@0/2)": where part of 16, axis 0 of two parts, begins; with the windows of the part as
/// a placement writes them, and with the weights of the axis: "begin(16@0/(2:1))".
std::string term_text(const LocalInt::Term& term) {
  const Split& split = term.split;
  std::string text = term.kind == LocalInt::Term::Kind::kBegin ? "begin(" : "size(";
  text += std::to_string(split.extent);
  for (const AxisPart& axis : split.axes)
    text += "@" + std::to_string(axis.axis) + "/" + parts_text(axis);
  if (split.unit != 1) text += ":" + std::to_string(split.unit);
  if (split.chunks != 1) text += "/" + std::to_string(split.chunks);
  for (const Window& window : split.windows) text += "~" + to_text(window);
  return text + (split.windows.empty() ? ")" : " of " + std::to_string(split.whole()) + ")");
}

/// "16": the same everywhere; "3 + begin(16@0/2) - 2 begin(8@0/2)".
std::string int_text(const LocalInt& value) {
  std::string text =
      value.is_constant() || value.constant != 0 ? std::to_string(value.constant) : "";
  for (const LocalInt::Term& term : value.terms) {
    if (!text.empty() || term.times < 0)
      text += std::string(text.empty() ? "" : " ") + (term.times < 0 ? "- " : "+ ");
    if (std::abs(term.times) != 1) text += std::to_string(std::abs(term.times)) + " ";
    text += term_text(term);
  }
  return text;
}

std::string call_text(const KernelCall& call) {
  std::vector<std::string> parameters;
  if (!call.text.empty()) parameters.push_back("\"" + call.text + "\"");
  for (const LocalInt& value : call.ints) parameters.push_back(int_text(value));
  for (double value : call.reals) parameters.push_back(double_text(value));
  return call.kernel + (parameters.empty() ? "" : " {" + join(parameters, ", ") + "}");
}

/// The regions of a While or an If, six spaces to the right.
std::string region_lines(const KernelStep& step) {
  if (!step.control) return "";
  std::string text;
  for (const TaskGraph& region : step.control->regions) {
    text += "      region\n";
    for (const std::string& line : split_text(to_text(region), '\n'))
      if (!line.empty()) text += "        " + line + "\n";
  }
  return text;
}

std::string step_line(const TaskGraph& graph, const KernelStep& step) {
  std::string line = "    " + names(graph, step.outputs) + " = " + call_text(step.call) + " (" +
                     names(graph, step.inputs) + ")";
  if (!step.workspace.is_none())
    line += " workspace " + graph.registers.at(step.workspace).name.text();
  return line + (step.op.empty() ? "" : " of " + step.op) + "\n" + region_lines(step);
}

std::string part_text(const ExchangePart& part) {
  return "    " + std::string(to_text(part.exchange.kind)) + " " + to_text(part.exchange.from) +
         " -> " + to_text(part.exchange.to) + (part.reason.empty() ? "" : ": " + part.reason);
}

std::string task_lines(const TaskGraph& graph, const Task& task) {
  std::string text = "  " + std::string(to_text(task.kind)) + " '" + task.name + "' @" +
                     std::string(to_text(task.role));
  if (!task.inputs.empty()) text += " <- " + names(graph, task.inputs);
  if (!task.outputs.empty()) text += " -> " + names(graph, task.outputs);
  if (!task.overwrites.empty()) text += " over " + names(graph, task.overwrites);
  text += "\n";
  for (const ExchangePart& part : task.parts)
    text += part_text(part) +
            (task.issue_after.is_none() || &part != &task.parts.back()
                 ? ""
                 : "; may be issued after '" + graph.tasks[task.issue_after].name + "'") +
            "\n";
  for (const KernelStep& step : task.steps) text += step_line(graph, step);
  return text;
}

}  // namespace

std::string pass_text(Role role, std::optional<PassKind> pass, int micro_batch) {
  std::string text = role == Role::kForward ? "F" : role == Role::kBackward ? "B" : "O";
  if (pass == PassKind::kWeightGradient) text = "W";
  return micro_batch >= 0 ? text + std::to_string(micro_batch) : text;
}

std::string pass_text(const Task& task) {
  if (task.kind == Task::Kind::kFeed || task.kind == Task::Kind::kFetch) return "";
  return pass_text(task.role, task.pass, task.micro_batch);
}

std::string_view to_text(Task::Kind kind) {
  switch (kind) {
    case Task::Kind::kFeed: return "feed";
    case Task::Kind::kCompute: return "compute";
    case Task::Kind::kExchange: return "exchange";
    case Task::Kind::kFetch: return "fetch";
    case Task::Kind::kCopy: return "copy";
  }
  throw InternalError("unknown kind of task");
}

std::string_view to_text(TaskStream stream) {
  switch (stream) {
    case TaskStream::kHost: return "acts";
    case TaskStream::kCompute: return "kernels";
    case TaskStream::kCopyIn: return "copies in";
    case TaskStream::kCopyOut: return "copies out";
    case TaskStream::kPrefetch: return "prefetches";
  }
  throw InternalError("unknown stream");
}

DeviceKind device_of(const TaskGraph& graph, MeshIndex mesh) {
  return graph.devices.empty() ? DeviceKind::kHost : graph.devices[mesh];
}

TaskStream stream_of(const TaskGraph& graph, const Task& task) {
  if (task.kind == Task::Kind::kCopy) {
    const auto memory_of = [&](RegisterIndex reg) {
      return device_of(graph, graph.registers[reg].mesh);
    };
    return is_nearer(memory_of(task.outputs.front()), memory_of(task.inputs.front()))
               ? TaskStream::kCopyIn
               : TaskStream::kCopyOut;
  }
  const bool is_on_device =
      task.kind == Task::Kind::kCompute && device_of(graph, task.mesh) != DeviceKind::kHost;
  return is_on_device ? TaskStream::kCompute : TaskStream::kHost;
}

std::string to_text(const TaskGraph& graph) {
  std::string text;
  for (MeshIndex mesh : graph.meshes.indices()) {
    const DeviceKind device = device_of(graph, mesh);
    text += "mesh " + to_text(*graph.meshes[mesh]) +
            (device == DeviceKind::kHost ? "" : " of devices " + std::string(to_text(device))) +
            ", arena " + std::to_string(graph.arenas[mesh].value()) + "\n";
  }
  text += "registers\n";
  for (const Register& reg : graph.registers) text += register_line(graph, reg);
  text += "tasks\n";
  for (TaskId task : graph.order) text += task_lines(graph, graph.tasks.at(task));
  for (const auto& [name, reg] : graph.results)
    text += "result " + name + " = " + graph.registers.at(reg).name.text() + "\n";
  return text;
}

std::vector<Rank> ranks(const TaskGraph& graph) {
  std::set<Rank> all;
  for (const MeshPtr& mesh : graph.meshes) all.insert(mesh->ranks().begin(), mesh->ranks().end());
  return {all.begin(), all.end()};
}

Bytes Control::workspace() const {
  Bytes end{0};
  for (size_t i = 0; i < regions.size(); ++i)
    end = std::max(end, Bytes(offsets[i]) + regions[i].arenas.front());
  return end;
}

std::vector<RegisterIndex> region_variables(const KernelStep& step) {
  if (step.control->kind == Control::Kind::kIf) return {step.inputs.begin() + 1, step.inputs.end()};
  std::vector<RegisterIndex> variables = step.outputs;
  variables.insert(variables.end(),
                   step.inputs.begin() + static_cast<std::ptrdiff_t>(step.outputs.size()),
                   step.inputs.end());
  return variables;
}

TensorType local_type(const Register& reg, const Coordinate& coordinate) {
  return {reg.type->dtype, reg.attr.local_shape(reg.type->shape, coordinate)};
}
TensorType local_type(const RegisterForm& reg, const Coordinate& coordinate) {
  return {reg.type->dtype, reg.attr.local_shape(reg.type->shape, coordinate)};
}

}  // namespace tessera
