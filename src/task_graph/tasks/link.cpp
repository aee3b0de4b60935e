// Who fills and reads each register of a task graph.
#include <utility>

#include "base/error.h"
#include "task_graph/tasks/check.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {
namespace {

class Linker {
 public:
  explicit Linker(const TaskGraph& graph)
      : graph_(graph),
        numbering_(graph.registers.numbering()),
        producers_(graph.registers.size()),
        last_reader_(graph.registers.size()) {}

  std::pair<RegisterLinks, TaskLinks> run() {
    for (const TaskVariable& variable : graph_.variables)
      ensure(graph_.registers.contains(variable.value), [&] {
        return "task graph: '" + variable.name + "' names a register that does not exist";
      });
    for (const TaskForm& form : graph_.tasks.forms()) check_names(form);
    for (TaskId t : graph_.tasks.indices()) {
      const TaskForm& form = graph_.tasks.form_of(t);
      const int micro_batch = graph_.tasks.instance(t).micro_batch;
      if (form.kind == Task::Kind::kCompute)
        add_steps(t, form, micro_batch);
      else
        add_act(t, form, micro_batch);
      links_.inputs.end_list();
    }
    RegisterLinks registers{std::move(producers_), {graph_.registers.size(), reads_}};
    for (TaskId t : graph_.tasks.indices()) add_outputs(t, registers.consumers);
    return {std::move(registers), std::move(links_)};
  }

 private:
  void check_names(const TaskForm& form) const {
    const auto check_list = [&](const std::vector<RegisterFormIndex>& list, const char* role) {
      for (RegisterFormIndex reg : list)
        if (!numbering_.contains(reg))
          task_checks::offence(form,
                               std::string("names a register that does not exist as ") + role);
    };
    check_list(form.inputs, "input");
    check_list(form.outputs, "output");
    for (const KernelForm& step : form.steps) {
      check_list(step.inputs, "operand");
      check_list(step.outputs, "result");
      if (!step.workspace.is_none()) check_list({step.workspace}, "workspace");
    }
  }

  void add_steps(TaskId t, const TaskForm& form, int micro_batch) {
    const bool is_on_device = device_of(graph_, form.mesh) != DeviceKind::kHost;
    const KernelSteps steps(form.steps, numbering_, micro_batch);
    for (const KernelForm& kernel : form.steps) {
      if (!steps.is_called(kernel)) continue;
      if (const RegisterIndex sum = steps.sum_before(kernel); !sum.is_none()) read(t, sum);
      for (RegisterFormIndex reg : kernel.inputs) read(t, numbering_.read(reg, micro_batch));
      for (RegisterFormIndex reg : kernel.outputs) fill(t, numbering_.written(reg, micro_batch));
      if (!kernel.workspace.is_none()) fill(t, numbering_.written(kernel.workspace, micro_batch));
      if (!is_on_device) continue;
      // A copy of the old value may be in flight on another stream: the feed of this step made it
      // readable.
      for (RegisterFormIndex reg : kernel.outputs)
        if (const int variable = graph_.registers[numbering_.written(reg, micro_batch)].variable;
            variable >= 0 && variable < std::ssize(graph_.variables))
          read(t, graph_.variables[variable].value);
    }
  }

  void add_act(TaskId t, const TaskForm& form, int micro_batch) {
    for (RegisterFormIndex reg : form.inputs) read(t, numbering_.read(reg, micro_batch));
    for (RegisterFormIndex reg : form.outputs) fill(t, numbering_.written(reg, micro_batch));
  }

  void read(TaskId t, RegisterIndex reg) {
    if (producers_[reg] == t) return;  // made by an earlier kernel of the same task
    if (std::exchange(last_reader_[reg], t) == t) return;
    reads_.emplace_back(reg, t);
    links_.inputs.add(reg);
  }

  void fill(TaskId t, RegisterIndex reg) {
    if (!producers_[reg].is_none())
      task_checks::offence(graph_.registers[reg], "is filled twice, by " +
                                                      graph_.tasks[producers_[reg]].name + " and " +
                                                      graph_.tasks[t].name);
    producers_[reg] = t;
  }

  void add_outputs(TaskId t, const IndexedLists<RegisterIndex, TaskId>& consumers) {
    const TaskForm& form = graph_.tasks.form_of(t);
    const int micro_batch = graph_.tasks.instance(t).micro_batch;
    if (form.kind != Task::Kind::kCompute)
      for (RegisterFormIndex reg : form.outputs)
        links_.outputs.add(numbering_.written(reg, micro_batch));
    const KernelSteps steps(form.steps, numbering_, micro_batch);
    for (const KernelForm& kernel : form.steps)
      for (RegisterFormIndex form_of_result : kernel.outputs) {
        if (!steps.is_called(kernel)) continue;
        const RegisterIndex result = numbering_.written(form_of_result, micro_batch);
        if (!consumers[result].empty()) links_.outputs.add(result);
      }
    links_.outputs.end_list();
  }

  const TaskGraph& graph_;
  const RegisterNumbering& numbering_;
  IndexedVector<RegisterIndex, TaskId> producers_;
  IndexedVector<RegisterIndex, TaskId> last_reader_;
  std::vector<std::pair<RegisterIndex, TaskId>> reads_;
  TaskLinks links_;
};

}  // namespace

void link(TaskGraph& graph) {
  auto [registers, tasks] = Linker(graph).run();
  graph.registers.set_links(std::move(registers));
  graph.tasks.set_links(graph.registers.shared_numbering(), std::move(tasks));
}

}  // namespace tessera
