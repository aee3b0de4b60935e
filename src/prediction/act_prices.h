// What the acts of a task graph take on the devices of a deployment.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/units.h"
#include "prediction/deployment.h"
#include "tasks/task_graph.h"

namespace tessera {

/// The time and the arithmetic of one act.
struct ActPrice {
  Seconds time{0};
  Flops flops{0};
};

/// Prices are computed when they are asked for and kept: of a task whose parts are equal on all
/// ranks once for each type of device, and of an exchange once for all receivers.
///
///   kernels    the sum of compute_price(work_of(call)) of its steps; a While runs its regions
///              max_iterations times (once when it has no limit), an If its longer region
///   exchange   for each sender a latency; then all receivers of the task receive at once: the
///              busiest channel on the receiver's paths, with what all of them send through it, and
///              the bytes that it reduces or copies at the rate of copies of its device
///   copies     between a device and its host: at the rate of copies
class ActPrices {
 public:
  ///   requires  the graph outlives it; its ranks are in the deployment
  ActPrices(const TaskGraph& graph, Deployment deployment);

  ActPrice price(Rank rank, TaskId task);

 private:
  using Key = std::pair<TaskId, int>;  // a task and a rank, or ~ the index of a device type

  ActPrice kernels(Rank rank, const Task& task) const;
  ActPrice step_price(const TaskGraph& graph, const KernelStep& step, Rank rank) const;
  ActPrice graph_price(const TaskGraph& graph, Rank rank) const;
  void price_exchange(TaskId id);
  bool is_even(const Task& task) const;
  int type_index(Rank rank) const;

  const TaskGraph& graph_;
  const Deployment deployment_;
  IndexedVector<TaskId, bool> is_even_;
  std::map<Key, ActPrice> known_;
};

}  // namespace tessera
