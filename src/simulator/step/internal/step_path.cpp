#include "simulator/step/internal/step_path.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/step/act_demands.h"
#include "task_graph/tasks/identical_tasks.h"

namespace tessera {
namespace {

constexpr double kNanosecond = 1e-9;

}  // namespace

StepPath::Price StepPath::price(const Act& act, const std::vector<double>& waits,
                                const Cluster& cluster) {
  const DeviceCost& device = cluster.type(act.device).cost;
  if (!act.kernels.empty())
    return {price_of(act.kernels, device, cluster.description().runtime).time.value() +
                static_cast<double>(launches(act.kernels)) * waits[act.pass],
            0};
  const ActDemand demand = demand_of(act.exchange, cluster);
  return {kNanosecond * static_cast<double>(demand.fixed) +
              copy_price(act.exchange.copied, 1, device).estimate.value(),
          flow_time(demand, cluster).value()};
}

StepPath::StepPath(const TaskGraph& graph, const Simulation& simulation,
                   const Deployment& deployment) {
  const Cluster& cluster = *deployment.cluster;
  ActDemands works(graph, deployment);
  const IndexedVector<TaskId, TaskId> identical = identical_tasks(graph);
  std::map<std::pair<Rank, TaskId>, Act> acts;
  std::map<const PassWork*, size_t> passes;
  std::vector<double> waits;
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
      if (kind == Task::Kind::kCompute) {
        act.kernels = works.kernel_work(critical.rank, task);
        const PassWork& pass = works.pass_work(critical.rank, task);
        const auto [known, is_new_pass] = passes.try_emplace(&pass, passes_.size());
        if (is_new_pass) {
          passes_.push_back(pass);
          waits.push_back(host_wait(pass, cluster).value());
        }
        act.pass = known->second;
      } else {
        act.exchange = works.exchange_work(critical.rank, task);
      }
      act.flow = price(act, waits, cluster).flow;
    }
    const double part = length > 0 ? counted / length : 0;
    const double in_flows = part * (length - price(act, waits, cluster).fixed);
    act.count += part;
    (act.flow > 0 ? act.in_flows : rest_) += in_flows;
  }
  for (auto& [key, act] : acts) acts_.push_back(std::move(act));
}

Seconds StepPath::on(const Cluster& cluster) const {
  double seconds = rest_ + cluster.description().runtime.constant.value();
  std::vector<double> waits;
  for (const PassWork& pass : passes_) waits.push_back(host_wait(pass, cluster).value());
  for (const Act& act : acts_) {
    const Price now = price(act, waits, cluster);
    seconds += act.count * now.fixed;
    if (act.flow > 0) seconds += act.in_flows * now.flow / act.flow;
  }
  return Seconds(seconds);
}

}  // namespace tessera
