#include "task_graph/tasks/internal/task_table.h"

#include "kernels/bind.h"

namespace tessera {

namespace {

/// The call of a kernel in a micro-batch.
CopyOnWrite<KernelCall> call_in(const KernelForm& form, int micro_batch) {
  CopyOnWrite<KernelCall> call = form.call;
  if (!form.variation || form.variation->int_steps.empty() || micro_batch <= 0) return call;
  call.change([&](KernelCall& changed) {
    const std::vector<int64_t>& steps = form.variation->int_steps;
    for (size_t k = 0; k < steps.size(); ++k) changed.ints[k].constant += micro_batch * steps[k];
  });
  return call;
}

const Control* control_in(const KernelForm& form, int micro_batch) {
  if (!form.variation || form.variation->controls.empty() || micro_batch <= 0)
    return form.control.get();
  return form.variation->controls[micro_batch].get();
}

}  // namespace

KernelStep KernelSteps::step(const KernelForm& form) const {
  return {.call = call_in(form, micro_batch_),
          .inputs = {form.inputs, *numbering_, micro_batch_, false, sum_before(form)},
          .outputs = {form.outputs, *numbering_, micro_batch_, true},
          .workspace = form.workspace.is_none() ? RegisterIndex()
                                                : numbering_->written(form.workspace, micro_batch_),
          .op = form.op,
          .control = control_in(form, micro_batch_),
          .purpose = form.purpose};
}

TaskId TaskTable::add(TaskInstance instance) {
  overwrites_.push_back({});
  return instances_.push_back(instance);
}

Task TaskTable::operator[](TaskId task) const {
  const TaskInstance& instance = instances_[task];
  const TaskForm& form = forms_[instance.form];
  const auto listed = [&](const IndexedLists<TaskId, RegisterIndex>& lists) {
    return lists.contains(task) ? lists[task] : std::span<const RegisterIndex>();
  };
  return {.name = {form.name, instance.micro_batch},
          .kind = form.kind,
          .role = form.role,
          .micro_batch = instance.micro_batch,
          .pass = instance.pass,
          .mesh = form.mesh,
          .steps = {form.steps, *numbering_, instance.micro_batch},
          .parts = form.parts,
          .issue_after = instance.issue_after,
          .inputs = listed(links_.inputs),
          .outputs = listed(links_.outputs),
          .overwrites = overwrites_[task]};
}

bool may_write_over(const KernelStep& step, RegisterIndex input, const KernelSet* own) {
  if (step.control) return false;
  std::vector<int> inputs;
  for (RegisterIndex reg : step.inputs) inputs.push_back(reg.value());
  return may_write_over(step.call->kernel, inputs, input.value(), own);
}

}  // namespace tessera
