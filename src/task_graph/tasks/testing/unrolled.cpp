#include "task_graph/tasks/testing/unrolled.h"

#include <utility>

namespace tessera {
namespace {

template <class List>
std::vector<RegisterFormIndex> forms_of(const List& list) {
  std::vector<RegisterFormIndex> forms;
  for (RegisterIndex reg : list) forms.emplace_back(reg.value());
  return forms;
}

KernelForm form_of(const KernelStep& step, const std::shared_ptr<const Control>& control) {
  return {.call = step.call,
          .inputs = forms_of(step.inputs),
          .outputs = forms_of(step.outputs),
          .workspace = RegisterFormIndex(step.workspace.value()),
          .op = step.op,
          .control = control,
          .purpose = step.purpose};
}

std::shared_ptr<const Control> control_of(const KernelForm& kernel, int micro_batch) {
  if (micro_batch <= 0 || !kernel.variation || kernel.variation->controls.empty())
    return kernel.control;
  return kernel.variation->controls[micro_batch];
}

TaskForm form_of(const TaskGraph& graph, TaskId id) {
  const Task task = graph.tasks[id];
  TaskForm form{.name = task.name.text(),
                .kind = task.kind,
                .role = task.role,
                .mesh = task.mesh,
                .parts = task.parts};
  for (const KernelForm& kernel : graph.tasks.form_of(id).steps)
    if (task.steps.is_called(kernel))
      form.steps.push_back(form_of(task.steps.step(kernel), control_of(kernel, task.micro_batch)));
  if (task.kind == Task::Kind::kCompute) return form;
  form.inputs = forms_of(task.inputs);
  form.outputs = forms_of(task.outputs);
  return form;
}

}  // namespace

TaskGraph unrolled(const TaskGraph& graph) {
  TaskGraph made = graph;
  made.registers = {};
  made.tasks = {};
  for (const Register& reg : graph.registers)
    made.registers.push_back({.name = reg.name.text(),
                              .type = reg.type,
                              .micro_batch = reg.micro_batch,
                              .attr = reg.attr,
                              .mesh = reg.mesh,
                              .slots = reg.slots,
                              .storage = reg.storage,
                              .size = reg.size,
                              .variable = reg.variable,
                              .chunk = reg.chunk},
                             reg.offset);
  for (TaskId id : graph.tasks.indices()) {
    TaskInstance instance = graph.tasks.instance(id);
    instance.form = made.tasks.add_form(form_of(graph, id));
    made.tasks.overwrites(made.tasks.add(instance)) = {graph.tasks[id].overwrites.begin(),
                                                       graph.tasks[id].overwrites.end()};
  }
  link(made);
  return made;
}

}  // namespace tessera
