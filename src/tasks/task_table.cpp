#include "tasks/task_table.h"

#include "kernels/bind.h"

namespace tessera {

KernelStep KernelSteps::step(const KernelForm& form) const {
  KernelStep step{.call = form.call,
                  .inputs = {form.inputs, *numbering_, micro_batch_, false, sum_before(form)},
                  .outputs = {form.outputs, *numbering_, micro_batch_, true},
                  .workspace = form.workspace.is_none()
                                   ? RegisterIndex()
                                   : numbering_->written(form.workspace, micro_batch_),
                  .op = form.op,
                  .control = form.control.get(),
                  .purpose = form.purpose};
  if (!form.variation || micro_batch_ <= 0) return step;
  const KernelVariation& variation = *form.variation;
  if (!variation.controls.empty()) step.control = variation.controls[micro_batch_].get();
  if (!variation.int_steps.empty())
    step.call.change([&](KernelCall& call) {
      for (size_t k = 0; k < variation.int_steps.size(); ++k)
        call.ints[k].constant += micro_batch_ * variation.int_steps[k];
    });
  return step;
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
