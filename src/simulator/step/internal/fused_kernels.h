// What another runtime computes in one kernel: steps of a task that our programs compute one by
// one.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cluster/cluster/runtime_profile.h"
#include "kernels/work.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// One kernel: a product, a look-up or another step that is alone, or element-wise steps,
/// reductions and moves that follow from each other.
struct FusedKernel {
  /// Of the task, ascending; without casts to wider types and what is much larger than its inputs
  /// (broadcasts, constants, random numbers), which readers make as they read.
  std::vector<size_t> steps;
  /// From and to memory, each once. What the steps make for each other is in neither, and what
  /// those of the forward, or those that compute it again, make for the backward is not written
  /// where element-wise steps alone read it there, except for masks: these compute it again from
  /// what this kernel reads.
  std::vector<RegisterIndex> reads, writes;
  bool is_alone = false;  // a step with a price of its own
  /// A part of a kernel that works on a list of tensors: it takes no launch of its own.
  bool is_of_list = false;
};

/// The kernels of the tasks of a graph, found when they are asked for.
///
///   ensures  no kernel needs what a kernel after it makes: steps with a product between them are
///            in two. A cast to a narrower type and a sum of gradients are in the
///            kernel that makes their last operand, a bias is added by the product, and the update
///            of the optimizer is fused as with Fusion::kAll. What works on parameters alone is one
///            kernel of a task
///   threads  one caller
class FusedKernels {
 public:
  /// The class of a step of a task.
  using ClassOf = std::function<OperationClass(const Task& task, const KernelStep& step)>;

  ///   requires  the graph outlives it
  FusedKernels(const TaskGraph& graph, Fusion fusion, ClassOf class_of);

  ///   requires  a compute task
  const std::vector<FusedKernel>& of(TaskId task);
  using Registers = std::vector<RegisterIndex>;
  /// What is read of a register in memory: itself, or what its readers make it of.
  Registers read_of(RegisterIndex reg);

 private:
  struct OfTask {
    std::vector<FusedKernel> kernels;
    std::map<RegisterIndex, Registers> unwritten;  // what the kernel that makes it reads
  };
  /// By register that readers make themselves: what they read in its place.
  using Sources = std::map<RegisterIndex, Registers>;

  const OfTask& find(TaskId task);
  /// The registers that steps which are alone read.
  const std::set<RegisterIndex>& read_alone(TaskId task);
  const Sources& sources(TaskId task);
  const TensorType& type_of(RegisterIndex reg) const { return graph_.registers[reg].type; }
  Registers inputs_of(const KernelStep& step);
  bool is_cast(const KernelStep& step) const;
  /// The product to which a step adds a bias; its kernel does so as it writes the result.
  RegisterIndex added_to(TaskId id, const KernelStep& step);
  /// The results of products that one step of the task reads.
  const std::set<RegisterIndex>& products(TaskId task);
  bool is_made_by_readers(const Task& task, const KernelStep& step);
  void join_lists(const Task& task, std::vector<FusedKernel>& kernels) const;
  bool is_written(const Register& reg, RegisterIndex index, const Task& maker);
  std::vector<std::vector<size_t>> groups_of(TaskId id);

  const TaskGraph& graph_;
  const Fusion fusion_;
  const ClassOf class_of_;
  std::map<TaskId, OfTask> known_;
  std::map<TaskId, std::set<RegisterIndex>> read_alone_;
  std::map<TaskId, Sources> sources_;
  std::map<TaskId, std::set<RegisterIndex>> products_;
};

/// The layer of an op: "blocks.0.norm1" of "blocks.0.norm1.centered", of casts of its results, and
/// of what is computed again or for its gradient.
std::string layer_of(const std::string& op);

}  // namespace tessera
