#include "simulator/step/internal/fused_kernels.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "ir/graph/derivations.h"

namespace tessera {
namespace {

/// The groups of steps that were joined pair by pair.
class Groups {
 public:
  explicit Groups(size_t count) : first_(count) { std::iota(first_.begin(), first_.end(), 0); }

  size_t of(size_t step) const {
    while (first_[step] != step) step = first_[step];
    return step;
  }
  void join(size_t a, size_t b) { first_[std::max(of(a), of(b))] = std::min(of(a), of(b)); }
  std::vector<std::vector<size_t>> all() const {
    std::map<size_t, std::vector<size_t>> lists;
    for (size_t step = 0; step < first_.size(); ++step) lists[of(step)].push_back(step);
    std::vector<std::vector<size_t>> groups;
    for (auto& [first, steps] : lists) groups.push_back(std::move(steps));
    return groups;
  }

 private:
  std::vector<size_t> first_;
};

constexpr int64_t kMuchLarger = 8;

/// Of a value that several ops read: autodiff calls it so (ir/autodiff/autodiff.h).
bool is_sum_of_gradients(const KernelStep& step) {
  return step.op.text().find(".grad.sum") != std::string::npos;
}

/// Is it a result of the forward that the backward computes again?
bool is_made_again(const std::string& name) {
  return first_computation(name) != name;
}

void add(RegisterIndex reg, std::vector<RegisterIndex>& list) {
  if (std::ranges::find(list, reg) == list.end()) list.push_back(reg);
}

}  // namespace

std::string layer_of(const std::string& op) {
  std::string own = op.substr(0, op.find(".grad"));
  for (bool is_shorter = true; is_shorter;) {
    is_shorter = false;
    for (const std::string_view ending : {".recompute", ".backward", ".f32", ".f16", ".bf16"})
      if (own.ends_with(ending)) {
        own.resize(own.size() - ending.size());
        is_shorter = true;
      }
  }
  const size_t point = own.rfind('.');
  return point == std::string::npos ? own : own.substr(0, point);
}

FusedKernels::FusedKernels(const TaskGraph& graph, Fusion fusion, ClassOf class_of)
    : graph_(graph), fusion_(fusion), class_of_(std::move(class_of)) {}

const std::vector<FusedKernel>& FusedKernels::of(TaskId task) {
  return find(task).kernels;
}

/// Is the result a wider cast of one operand, or much larger than all of them?
bool FusedKernels::is_made_by_readers(const Task& task, const KernelStep& step) {
  if (step.control || step.outputs.size() != 1 || !is_fusible(class_of_(task, step))) return false;
  const TensorType& out = type_of(step.outputs[0]);
  int64_t read = 0;
  for (const RegisterIndex input : inputs_of(step)) read += element_count(type_of(input).shape);
  // A random mask is kept; what else is much larger than its inputs is not.
  const bool is_mask = out.dtype == DType::kBool && read <= 1;
  if (kMuchLarger * read <= element_count(out.shape)) return !is_mask;
  return is_cast(step) && size_of(type_of(step.inputs[0]).dtype) < size_of(out.dtype);
}

RegisterIndex FusedKernels::added_to(TaskId id, const KernelStep& step) {
  if (step.control || step.inputs.size() != 2 || step.outputs.size() != 1 ||
      class_of_(graph_.tasks[id], step) != OperationClass::kElementwise)
    return {};
  for (const size_t i : {0, 1}) {
    const RegisterIndex product = step.inputs[i], other = step.inputs[1 - i];
    if (graph_.registers[product].producer != id || !graph_.registers[product].consumers.empty())
      continue;
    int64_t small = 0;
    for (const RegisterIndex source : read_of(other)) small += element_count(type_of(source).shape);
    if (kMuchLarger * small > element_count(type_of(product).shape)) continue;
    if (products(id).contains(product)) return product;
  }
  return {};
}

const std::set<RegisterIndex>& FusedKernels::products(TaskId id) {
  const auto [at, is_new] = products_.try_emplace(id);
  if (!is_new) return at->second;
  const Task& task = graph_.tasks[id];
  std::map<RegisterIndex, int> readers;
  for (const KernelStep& step : task.steps)
    for (const RegisterIndex input : step.inputs) ++readers[input];
  for (const KernelStep& step : task.steps)
    if (!step.control && step.outputs.size() == 1 && readers[step.outputs[0]] == 1 &&
        class_of_(task, step) == OperationClass::kMatmul)
      at->second.insert(step.outputs[0]);
  return at->second;
}

bool FusedKernels::is_cast(const KernelStep& step) const {
  if (step.inputs.size() != 1 || step.outputs.size() != 1) return false;
  const TensorType &in = type_of(step.inputs[0]), &out = type_of(step.outputs[0]);
  return in.shape == out.shape && in.dtype != out.dtype;
}

FusedKernels::Registers FusedKernels::inputs_of(const KernelStep& step) {
  Registers list;
  for (const RegisterIndex input : step.inputs)
    for (const RegisterIndex source : read_of(input)) add(source, list);
  return list;
}

FusedKernels::Registers FusedKernels::read_of(RegisterIndex reg) {
  const TaskId producer = graph_.registers[reg].producer;
  if (producer.is_none() || graph_.tasks[producer].kind != Task::Kind::kCompute) return {reg};
  const Sources& made = sources(producer);
  const auto found = made.find(reg);
  return found == made.end() ? Registers{reg} : found->second;
}

const FusedKernels::Sources& FusedKernels::sources(TaskId id) {
  const auto [at, is_new] = sources_.try_emplace(id);
  if (!is_new) return at->second;
  const Task& task = graph_.tasks[id];
  for (const KernelStep& step : task.steps)
    if (is_made_by_readers(task, step) &&
        !is_written(graph_.registers[step.outputs[0]], step.outputs[0], task) &&
        !read_alone(id).contains(step.outputs[0]))
      at->second[step.outputs[0]] = inputs_of(step);
  return at->second;
}

/// Steps are joined to those that make their operands, as long as no step that is alone is on a way
/// between them: each step has the number of these before it.
std::vector<std::vector<size_t>> FusedKernels::groups_of(TaskId id) {
  struct Made {
    size_t step = 0;
    int alone = 0;  // steps that are alone on the way to it, itself included
    bool is_fusible = false;
    std::string layer;
  };
  const Task& task = graph_.tasks[id];
  const Sources& by_readers = sources(id);
  const bool has_layers = fusion_ == Fusion::kLayers && task.role != Role::kOptimizer;
  std::map<RegisterIndex, Made> made;
  std::set<size_t> left_out;
  Groups groups(task.steps.size());
  size_t i = 0;
  for (const KernelStep& step : task.steps) {
    Made own{i++, 0, is_fusible(class_of_(task, step)), has_layers ? layer_of(step.op.text()) : ""};
    if (!step.outputs.empty() && by_readers.contains(step.outputs[0])) {
      left_out.insert(own.step);
      continue;
    }
    const Registers inputs = inputs_of(step);
    if (const RegisterIndex product = added_to(id, step); !product.is_none()) {
      if (const auto found = made.find(product); found != made.end()) {
        groups.join(found->second.step, own.step);
        own.alone = found->second.alone;
        own.is_fusible = false;  // what follows reads the result from memory
        for (const RegisterIndex output : step.outputs) made[output] = own;
        continue;
      }
    }
    for (const RegisterIndex input : inputs)
      if (const auto found = made.find(input); found != made.end())
        own.alone = std::max(own.alone, found->second.alone);
    const Made* last = nullptr;  // of the steps that it may be joined to
    for (const RegisterIndex input : inputs)
      if (const auto found = made.find(input); own.is_fusible && found != made.end() &&
                                               found->second.is_fusible &&
                                               found->second.alone == own.alone) {
        if (!last || last->step < found->second.step) last = &found->second;
        if (found->second.layer == own.layer) groups.join(found->second.step, own.step);
      }
    if (last && (is_cast(step) || is_sum_of_gradients(step))) {
      groups.join(last->step, own.step);
      own.layer = last->layer;
    }
    if (!own.is_fusible) ++own.alone;
    for (const RegisterIndex output : step.outputs) made[output] = own;
  }
  std::vector<std::vector<size_t>> all = groups.all();
  std::erase_if(all,
                [&](const std::vector<size_t>& steps) { return left_out.contains(steps.front()); });
  return all;
}

const std::set<RegisterIndex>& FusedKernels::read_alone(TaskId id) {
  const auto [at, is_new] = read_alone_.try_emplace(id);
  if (!is_new) return at->second;
  const Task& task = graph_.tasks[id];
  for (const KernelStep& step : task.steps)
    if (!is_fusible(class_of_(task, step)))
      at->second.insert(step.inputs.begin(), step.inputs.end());
  return at->second;
}

/// Do other tasks need what a task makes in memory?
bool FusedKernels::is_written(const Register& reg, RegisterIndex index, const Task& maker) {
  const bool is_mask = reg.type->dtype == DType::kBool;  // of a dropout: autograd keeps it
  if (reg.storage == Register::Storage::kVariable || (is_mask && !reg.consumers.empty()))
    return true;
  return std::ranges::any_of(reg.consumers, [&](TaskId consumer) {
    const Task& task = graph_.tasks[consumer];
    const bool may_compute_it_again =
        task.role == Role::kBackward &&
        (maker.role == Role::kForward || is_made_again(reg.name.text()));
    return task.kind != Task::Kind::kCompute || !may_compute_it_again ||
           read_alone(consumer).contains(index);
  });
}

const FusedKernels::OfTask& FusedKernels::find(TaskId id) {
  const auto [at, is_new] = known_.try_emplace(id);
  OfTask& found = at->second;
  if (!is_new) return found;
  const Task& task = graph_.tasks[id];
  const std::vector<std::vector<size_t>> groups = groups_of(id);
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> group_of(task.steps.size(), kNone);
  for (size_t g = 0; g < groups.size(); ++g)
    for (const size_t step : groups[g]) group_of[step] = g;
  // What steps of other kernels of the task read.
  std::map<RegisterIndex, size_t> maker, unwritten;
  std::set<RegisterIndex> crossing, inside;
  found.kernels.resize(groups.size());
  size_t i = 0;
  for (const KernelStep& step : task.steps) {
    const size_t group = group_of[i++];
    if (group == kNone) continue;
    for (const RegisterIndex input : inputs_of(step))
      if (const auto made = maker.find(input); made == maker.end() || made->second != group) {
        add(input, found.kernels[group].reads);
        crossing.insert(input);
      } else {
        inside.insert(input);
      }
    for (const RegisterIndex output : step.outputs) maker[output] = group;
  }
  i = 0;
  for (const KernelStep& step : task.steps) {
    const size_t group = group_of[i++];
    if (group == kNone) continue;
    FusedKernel& kernel = found.kernels[group];
    kernel.steps.push_back(i - 1);
    kernel.is_alone |= !is_fusible(class_of_(task, step));
    for (const RegisterIndex output : step.outputs) {
      const Register& reg = graph_.registers[output];
      if ((kernel.is_alone && !inside.contains(output)) || crossing.contains(output) ||
          is_written(reg, output, task))
        add(output, kernel.writes);
      else if (!reg.consumers.empty())
        unwritten[output] = group;
    }
  }
  // What another task left unwritten is computed again from what that read.
  for (FusedKernel& kernel : found.kernels) {
    std::vector<RegisterIndex> reads;
    for (const RegisterIndex read : kernel.reads) {
      const TaskId producer = graph_.registers[read].producer;
      const bool is_of_other = !producer.is_none() && producer != id &&
                               graph_.tasks[producer].kind == Task::Kind::kCompute;
      const OfTask* other = is_of_other ? &find(producer) : nullptr;
      if (!other || !other->unwritten.contains(read)) {
        add(read, reads);
        continue;
      }
      for (const RegisterIndex source : other->unwritten.at(read)) add(source, reads);
    }
    kernel.reads = std::move(reads);
  }
  for (const auto& [output, group] : unwritten)
    found.unwritten[output] = found.kernels[group].reads;
  join_lists(task, found.kernels);
  return found;
}

/// One kernel works on lists of tensors, as the fused optimizers of PyTorch and Apex do: that of
/// the update, and of the casts of parameters.
void FusedKernels::join_lists(const Task& task, std::vector<FusedKernel>& kernels) const {
  const auto is_of_list = [&](const FusedKernel& kernel) {
    if (kernel.is_alone) return false;
    return task.role == Role::kOptimizer ||
           std::ranges::all_of(kernel.reads, [&](RegisterIndex reg) {
             return graph_.registers[reg].storage == Register::Storage::kVariable;
           });
  };
  std::optional<FusedKernel> all;
  for (const FusedKernel& kernel : kernels) {
    if (!is_of_list(kernel)) continue;
    if (!all) all.emplace();
    std::ranges::copy(kernel.steps, std::back_inserter(all->steps));
    std::ranges::copy(kernel.reads, std::back_inserter(all->reads));
    std::ranges::copy(kernel.writes, std::back_inserter(all->writes));
  }
  if (!all) return;
  all->is_of_list = true;
  std::erase_if(kernels, is_of_list);
  std::ranges::sort(all->steps);
  kernels.insert(kernels.begin(), *std::move(all));
}

}  // namespace tessera
