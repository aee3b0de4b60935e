// Ranks that are threads of this machine and take as long as the devices and links of a cluster:
// each act sleeps after its work until its time is over. Real runs can so be compared with
// predictions, and plans with each other, on machines with fewer cores than ranks.
//
// The results of a run stay as they are. Sleeping ranks need no cores, so a run is as fast as it
// should be while the work of all ranks fits the cores of this machine: with times that are k times
// the CPU time of the work, k is at least 2 x ranks / cores.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/runtime/runtime.h"
#include "simulator/step/act_demands.h"
#include "task_graph/actors/fair_rates.h"

namespace tessera {

struct ThrottleOptions {
  /// By rank: the kernels of an act take n times the CPU time of their thread, >= 1. Empty:
  /// they take what the cluster says they take.
  std::vector<double> slowness = {};
};

/// Give it to RuntimeOptions::delay of a runtime that runs `graph` on threads of this process.
///
///   kernels    as ThrottleOptions say
///   exchanges  the latencies, the copies of the receiver and the flows of bytes of ActDemands: as
///              on a link of the cluster, whose bandwidth flows in flight share at max-min fair
///              rates by the clock of this machine
///   others     acts of other programs, feeds and fetches take what they take
///   requires   the graph and the cluster outlive it; the devices are no cores
///              (HardwareKind::kCpu), which ranks would share
///   threads    those of the ranks
class ThrottledRanks : public ActDelay {
 public:
  ThrottledRanks(const TaskGraph& graph, const Deployment& deployment,
                 const ThrottleOptions& options = {});

  void begin(Rank rank, const TaskGraph& graph, TaskId task) override;
  void end(Rank rank, const TaskGraph& graph, TaskId task) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct RankState {
    Clock::time_point begin = {};
    double cpu = 0;  // seconds of its thread at the begin
  };
  struct Transfer {
    std::vector<FlowId> left;
  };

  int64_t nanoseconds_of(Clock::time_point time) const;
  void transfer(const std::vector<Flow>& flows);
  void advance(int64_t now);

  const TaskGraph& graph_;
  const ThrottleOptions options_;
  const Clock::time_point start_ = Clock::now();
  std::vector<std::vector<ActDemand>> demands_;  // by rank and task
  std::vector<RankState> ranks_;
  std::mutex mutex_;  // of the following
  std::condition_variable changed_;
  FairRates rates_;
  std::vector<Transfer*> transfers_;
};

/// A cluster whose devices are `base` with kernels and copies that take slowness[i] times as long:
/// what predicts a run of ThrottleOptions::slowness. Device i is of rank i; links as given.
ClusterDescription throttled_cluster(const DeviceType& base, const std::vector<double>& slowness,
                                     const LinkLevel& links);

/// The shortest of n steps of a training program without its first step. Inputs are zeros.
Seconds throttled_step(const std::shared_ptr<const TaskGraph>& graph, const Deployment& deployment,
                       const ThrottleOptions& options, int steps);

}  // namespace tessera
