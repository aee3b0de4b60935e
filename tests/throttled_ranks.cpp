#include "throttled_ranks.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <thread>

#include "base/error.h"

namespace tessera {
namespace {

using ThrottledClock = std::chrono::steady_clock;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

ThrottledClock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<ThrottledClock::duration>(
      std::chrono::duration<double>(seconds));
}

/// The operating system wakes a thread a little late, so the last part is spent polling the clock.
void sleep_until(ThrottledClock::time_point time) {
  constexpr std::chrono::microseconds kLate{150};
  if (time - ThrottledClock::now() > kLate) std::this_thread::sleep_until(time - kLate);
  while (ThrottledClock::now() < time) std::this_thread::yield();
}

size_t index_of(TaskId task) {
  return static_cast<size_t>(task.value());
}

}  // namespace

ThrottledRanks::ThrottledRanks(const TaskGraph& graph, const Deployment& deployment,
                               const ThrottleOptions& options)
    : graph_(graph),
      options_(options),
      ranks_(deployment.device_of_rank.size()),
      rates_(ActDemands(graph, deployment).resources()) {
  ActDemands demands(graph, deployment);
  for (Rank rank = 0; rank < std::ssize(ranks_); ++rank) {
    ensure(deployment.type(rank).kind != HardwareKind::kCpu, "ranks share no cores");
    std::vector<ActDemand>& list = demands_.emplace_back();
    for (TaskId task : graph.tasks.indices())
      list.push_back(graph.meshes[graph.tasks[task].mesh]->coordinate_of(rank)
                         ? demands.demand(rank, task)
                         : ActDemand{});
  }
}

void ThrottledRanks::begin(Rank rank, const TaskGraph& graph, TaskId) {
  if (&graph != &graph_) return;
  ranks_[rank] = {ThrottledClock::now(), options_.slowness.empty() ? 0 : cpu_seconds()};
}

void ThrottledRanks::end(Rank rank, const TaskGraph& graph, TaskId task) {
  if (&graph != &graph_) return;
  const RankState& state = ranks_[rank];
  const ActDemand& demand = demands_[rank][index_of(task)];
  const bool is_measured =
      !options_.slowness.empty() && graph.tasks[task].kind == Task::Kind::kCompute;
  const double fixed = is_measured ? options_.slowness[rank] * (cpu_seconds() - state.cpu)
                                   : 1e-9 * static_cast<double>(demand.fixed);
  sleep_until(state.begin + duration_of(fixed));
  if (!demand.flows.empty()) transfer(demand.flows);
}

int64_t ThrottledRanks::nanoseconds_of(ThrottledClock::time_point time) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time - start_).count();
}

/// Ends the flows whose end has passed, each at its time, so that a thread that wakes late does not
/// change the rates of others.
void ThrottledRanks::advance(int64_t now) {
  for (int64_t next = rates_.next_end(); next <= now; next = rates_.next_end()) {
    for (FlowId ended : rates_.end_flows(next))
      for (Transfer* each : transfers_) std::erase(each->left, ended);
    rates_.update(next);
    changed_.notify_all();
  }
}

/// Waits until the flows have moved.
void ThrottledRanks::transfer(const std::vector<Flow>& flows) {
  std::unique_lock lock(mutex_);
  const int64_t now = nanoseconds_of(ThrottledClock::now());
  advance(now);
  Transfer mine;
  for (const Flow& flow : flows)
    if (flow.amount > 0) mine.left.push_back(rates_.begin(flow, now));
  rates_.update(now);
  transfers_.push_back(&mine);
  changed_.notify_all();  // the ends of others are later now
  while (!mine.left.empty()) {
    const int64_t next = rates_.next_end();
    const ThrottledClock::time_point due = start_ + std::chrono::nanoseconds(next);
    if (due - ThrottledClock::now() > std::chrono::microseconds(150)) {
      changed_.wait_until(lock, due - std::chrono::microseconds(150));
    } else {
      lock.unlock();
      sleep_until(due);
      lock.lock();
    }
    advance(nanoseconds_of(ThrottledClock::now()));
  }
  std::erase(transfers_, &mine);
}

ClusterDescription throttled_cluster(const DeviceType& base, const std::vector<double>& slowness,
                                     const LinkLevel& links) {
  ClusterDescription description;
  std::map<double, std::string> types;
  for (double factor : slowness) {
    if (types.contains(factor)) continue;
    DeviceType type = base;
    type.name = types[factor] = "slow" + std::to_string(types.size());
    type.kind = HardwareKind::kNpu;
    type.cost.launch_factor *= factor;
    type.cost.copied_bytes_per_second /= factor;
    for (const OperationClassName& name : kOperationClasses)
      type.cost.classes[name.operation].time_factor *= factor;
    description.types.push_back(type);
  }
  for (size_t rank = 0; rank < slowness.size(); ++rank)
    description.machines.push_back(
        {.names = {"n" + std::to_string(rank)}, .device = types[slowness[rank]], .devices = 1});
  if (slowness.size() > 1) description.network = {{links, 0, std::vector<int>(slowness.size(), 0)}};
  return description;
}

Seconds throttled_step(const std::shared_ptr<const TaskGraph>& graph, const Deployment& deployment,
                       const ThrottleOptions& options, int steps) {
  RuntimeOptions runtime_options;
  runtime_options.delay = std::make_shared<ThrottledRanks>(*graph, deployment, options);
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < std::ssize(deployment.device_of_rank); ++rank) ranks.push_back(rank);
  Runtime runtime(ranks, runtime_options);
  LoadedProgram& program = runtime.load(graph);
  runtime.initialize(program, 1);
  TensorMap inputs, results;
  std::map<std::string, const Tensor*> given;
  for (const auto& input : graph->inputs) inputs.emplace(input.name, Tensor(input.type));
  for (const auto& [name, tensor] : inputs) given[name] = &tensor;
  Seconds smallest(std::numeric_limits<double>::infinity());
  for (int step = 0; step <= steps; ++step) {
    const auto begin = ThrottledClock::now();
    runtime.run(program, given, results);
    const Seconds time(std::chrono::duration<double>(ThrottledClock::now() - begin).count());
    if (step > 0) smallest = std::min(smallest, time);
  }
  return smallest;
}

}  // namespace tessera
