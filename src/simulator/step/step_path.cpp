#include "simulator/step/step_path.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/step/act_demands.h"
#include "task_graph/tasks/identical_tasks.h"

namespace tessera {
namespace {

constexpr double kNanosecond = 1e-9;

/// Of the channel that the flows of an act alone use longest, in seconds.
double flow_time(const ActDemand& demand, const Cluster& cluster) {
  std::map<ResourceId, double> amounts;
  double longest = 0;
  for (const Flow& flow : demand.flows)
    for (const ResourceUse& use : flow.uses) {
      double& amount = amounts[use.resource];
      amount += static_cast<double>(flow.amount);
      const Channel& channel = cluster.channels()[use.resource.value()];
      longest = std::max(longest, amount / channel.bytes_per_second);
    }
  return longest;
}

}  // namespace

StepPath::Price StepPath::price(const Act& act, const Cluster& cluster) {
  const DeviceCost& device = cluster.type(act.device).cost;
  if (!act.kernels.empty())
    return {price_of(act.kernels, device, cluster.description().runtime).time.value(), 0};
  const ActDemand demand = demand_of(act.exchange, cluster);
  return {kNanosecond * static_cast<double>(demand.fixed) +
              copy_price(act.exchange.copied, 1, device).estimate.value(),
          flow_time(demand, cluster)};
}

StepPath::StepPath(const TaskGraph& graph, const Simulation& simulation,
                   const Deployment& deployment) {
  const Cluster& cluster = *deployment.cluster;
  ActDemands works(graph, deployment);
  const IndexedVector<TaskId, TaskId> identical = identical_tasks(graph);
  std::map<std::pair<Rank, TaskId>, Act> acts;
  Seconds reached = simulation.end - simulation.step;
  for (const CriticalAct& critical : simulation.critical_path) {
    if (critical.end <= reached) continue;
    if (critical.begin > reached) rest_ += (critical.begin - reached).value();
    const double length = (critical.end - critical.begin).value();
    const double counted = (critical.end - std::max(critical.begin, reached)).value();
    reached = critical.end;
    const TaskId task = identical[critical.task];
    const Task::Kind kind = graph.tasks[task].kind;
    if (kind != Task::Kind::kCompute && kind != Task::Kind::kExchange) {
      rest_ += counted;
      continue;
    }
    const auto [at, is_new] = acts.try_emplace({critical.rank, task});
    Act& act = at->second;
    if (is_new) {
      act.device = deployment.device(critical.rank);
      if (kind == Task::Kind::kCompute)
        act.kernels = works.kernel_work(critical.rank, task);
      else
        act.exchange = works.exchange_work(critical.rank, task);
      act.flow = price(act, cluster).flow;
    }
    const double part = length > 0 ? counted / length : 0;
    const double in_flows = part * (length - price(act, cluster).fixed);
    act.count += part;
    (act.flow > 0 ? act.in_flows : rest_) += in_flows;
  }
  for (auto& [key, act] : acts) acts_.push_back(std::move(act));
}

Seconds StepPath::on(const Cluster& cluster) const {
  double seconds = rest_ + cluster.description().runtime.constant.value();
  for (const Act& act : acts_) {
    const Price now = price(act, cluster);
    seconds += act.count * now.fixed;
    if (act.flow > 0) seconds += act.in_flows * now.flow / act.flow;
  }
  return Seconds(seconds);
}

}  // namespace tessera
