// What the acts of a task graph take on the devices of a deployment: time, bytes over links, cores.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cluster/cluster/runtime_profile.h"
#include "kernels/work.h"
#include "sharding/reshard/transfer_cache.h"
#include "simulator/clock/demands.h"
#include "simulator/step/deployment.h"
#include "simulator/step/internal/act_work.h"
#include "simulator/step/internal/fused_kernels.h"
#include "task_graph/tasks/identical_tasks.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// One kernel, or one While or If, of an act.
struct StepPrice {
  OperationClass operation = OperationClass::kElementwise;  // kElementwise of a While or an If
  Seconds time{0};
};

/// Prices are computed when they are asked for and kept: of a task whose parts are equal on all
/// ranks once for each type of device.
///
///   kernels    the sum of compute_price(work_of(call)) of its steps, in a working set of the arena
///              and the variables of a rank; a While runs its regions
///              max_iterations times (once when it has no limit), an If its longer region.
///              In a runtime that fuses: of each kernel that is no single step the bytes that it
///              reads and writes, at the rate of memory, and the gaps; or the time of the host if
///              that is longer
///   exchange   the greatest start of its links, and for each sender a latency; then a flow of
///   bytes from each sender over the channels
///              of its path, while the receiver copies or reduces them at the rate of copies
///   copies     between a device and its host: at the rate of copies
///
/// What a CPU does takes core time, which the ranks of a machine share when they have fewer cores
/// than they need.
class ActDemands {
 public:
  ///   requires  the graph outlives it; its ranks are in the deployment
  ActDemands(const TaskGraph& graph, Deployment deployment);

  /// The channels of the cluster, then the cores of each machine.
  IndexedVector<ResourceId, Resource> resources() const;
  ActDemand demand(Rank rank, TaskId task);
  /// None of tasks without kernels.
  KernelPrice kernels(Rank rank, TaskId task);
  /// By step of the task; together they are its kernels().
  std::vector<StepPrice> steps(Rank rank, TaskId task);

  bool fuses() const { return fused_ != nullptr; }
  /// Of a runtime that fuses.
  const std::vector<FusedKernel>& kernels_of(TaskId task) { return fused_->of(task); }
  /// Of a runtime that fuses: what is read of a register in memory, itself or its sources.
  std::vector<RegisterIndex> kernels_read(RegisterIndex reg) { return fused_->read_of(reg); }
  /// What attention keeps beside a result, its sums of exponentials, where the scores are in
  /// memory; 0 of other registers.
  Bytes bytes_of_scores(RegisterIndex reg);
  /// The kernels of a task in a runtime that fuses.
  const std::vector<KernelWork>& kernel_work(Rank rank, TaskId task);
  ///   requires  an exchange
  ExchangeWork exchange_work(Rank rank, TaskId task);
  /// The pass to which a task of kernels belongs.
  const PassWork& pass_work(Rank rank, TaskId task);

 private:
  struct Pass {
    MeshIndex mesh;
    int64_t micro_batch = 0;
    Role role = Role::kForward;
    auto operator<=>(const Pass&) const = default;
  };
  using Key = std::pair<TaskId, int>;  // a task and a rank, or ~ the index of a device type

  /// The time of a kernel is that of its first step.
  std::vector<StepPrice> steps_of_kernels(Rank rank, TaskId id);
  LocalWork work_of_step(const TaskGraph& graph, const KernelStep& step, Rank rank) const;
  KernelPrice price(const TaskGraph& graph, const KernelStep& step, Rank rank,
                    Bytes working_set) const;
  KernelPrice price(const TaskGraph& graph, Rank rank, Bytes working_set) const;
  /// Of a step of class kAttention where the scores are in memory.
  KernelWork work_of_scores(const KernelStep& step, const LocalWork& work, Rank rank) const;
  OperationClass class_of(const Task& task, const KernelStep& step);
  Bytes local_bytes(RegisterIndex reg, Rank rank) const;
  Bytes working_set(MeshIndex mesh) const;
  ActDemand work(Rank rank, Seconds time) const;
  ActDemand copy(Rank rank, const Task& task) const;
  ActDemand exchange(Rank rank, TaskId id);
  std::vector<KernelWork> made_kernel_work(Rank rank, TaskId task);
  /// Are the parts of a register, of a task equal on all ranks? Found when it is asked for.
  bool is_even(RegisterIndex index);
  bool is_even(TaskId id);
  Key key_of(Rank rank, TaskId id) { return {id, is_even(id) ? ~type_index(rank) : rank}; }
  /// Is it of parameters or their gradients alone? Runtimes exchange several of them together.
  bool is_in_bucket(const Task& task) const;
  int type_index(Rank rank) const;

  const TaskGraph& graph_;
  const Deployment deployment_;
  IndexedVector<TaskId, std::optional<bool>> is_even_;
  IndexedVector<RegisterIndex, std::optional<bool>> are_even_parts_;
  IndexedVector<MeshIndex, Bytes> working_sets_;  // of the ranks of each mesh
  std::map<Key, KernelPrice> known_;
  std::map<Key, std::vector<KernelWork>> works_;  // where the profile fuses
  TransferCache transfer_cache_;
  const RuntimeProfile profile_;
  std::unique_ptr<FusedKernels> fused_;                         // where the profile fuses
  std::map<std::string, OperationClass, std::less<>> classes_;  // by kernel
  // Where the profile fuses.
  IndexedVector<TaskId, TaskId> identical_;
  std::map<Pass, std::map<TaskId, int64_t>> passes_;  // how many tasks are as this one
  std::map<std::pair<Pass, int>, PassWork> pass_works_;
};

}  // namespace tessera
