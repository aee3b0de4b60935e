// The processes of a job as a cluster: a device for each process, with measured links.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster/description.h"
#include "cluster/cost/fit_link.h"
#include "runtime/memory/run_types.h"

namespace tessera {

/// The exchanges of two processes, each of which receives n bytes of the other one.
struct PairTimes {
  int a = 0, b = 0;
  std::vector<MeasuredTime> times;
};

/// All processes gather a tensor of n bytes.
struct GatherTime {
  Bytes whole{0};
  Seconds measured{0};
  Seconds predicted{0};  // on the cluster that was found
};

struct ProcessTimes {
  std::vector<std::string> hosts;  // by process
  std::vector<PairTimes> pairs;
  std::vector<GatherTime> gathers;
};

/// The pairs of processes that are measured: all when they are at most `most`; otherwise as many of
/// one host as of two hosts, each with an equal distance in the list of all.
std::vector<std::pair<int, int>> pairs_to_measure(const std::vector<std::string>& hosts,
                                                  int largest);

/// One device of the type `core` for each process; the machines are the hosts. The level
/// "processes" joins those of a host and the level "network" the hosts. Each has the link that is
/// nearest to the times of its pairs. That of one host is shared as a bus where the times of
/// gathers are nearer to those of a bus, which carries what two processes send each other at once.
///
///   cores   of a host
///   throws  UserError (78) when the processes of a host do not follow each other, since rank i is
///           on device i
ClusterDescription cluster_of_processes(const ProcessTimes& times, const DeviceType& core,
                                        double cores);

/// What the processes of a job are: their kernels (measured by the leader, for all hosts), and the
/// exchanges between pairs of them and among all. It takes some seconds. All processes call it, and
/// each gets the description of the leader.
///   requires  one rank for each process
struct MeasuredProcesses {
  ClusterDescription description;
  ProcessTimes times;
};
MeasuredProcesses measure_processes(const RuntimeOptions& options, int processes);

}  // namespace tessera
