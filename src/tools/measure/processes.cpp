#include "tools/measure/processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/detect.h"
#include "cluster/cluster/sources.h"
#include "tools/measure/internal/step_programs.h"
#include "tools/measure/machine.h"

namespace tessera {
namespace {

constexpr int kMeasuredPairs = 12;
constexpr int kFew = 2, kMany = 8;  // exchanges of a step

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// The text of each process, in every process.
std::vector<std::string> all_texts(Runtime& runtime, const std::string& mine) {
  std::vector<std::string> texts;
  runtime.all_gather(bytes_of(mine), [&](std::span<const std::byte> bytes) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return texts;
}

/// The difference of steps of many and of few exchanges, so that what a step takes beside them does
/// not count. In the leader; the others take part.
MeasuredTime exchange_time(Runtime& runtime, GatherChain chain) {
  const int steps = chain.elements > 1 << 16 ? 12 : 40;
  const auto step_of = [&](int exchanges) {
    chain.exchanges = exchanges;
    return min_step(runtime, gather_chain(chain), chain.elements, steps);
  };
  const double few = step_of(kFew), many = step_of(kMany);
  Seconds kernels{0};
  if (runtime.is_leader()) kernels = kernels_of_exchange(chain);
  const double exchange = (many - few) / (kMany - kFew);
  const auto parts = std::ssize(chain.ranks);
  return {Bytes(chain.elements / parts * (parts - 1) * 4),
          Seconds(std::max(exchange - kernels.value(), 0.1 * many / kMany))};
}

/// Larger messages take no less time: what another job has disturbed least counts.
void make_ascend(std::vector<MeasuredTime>& times) {
  for (size_t i = times.size() - 1; i-- > 0;)
    times[i].time = std::min(times[i].time, times[i + 1].time);
}

std::vector<MeasuredTime> times_between(Runtime& runtime, const std::vector<Rank>& ranks) {
  std::vector<MeasuredTime> times;
  for (int64_t elements = 1 << 8; elements <= 1 << 20; elements *= 16)
    times.push_back(exchange_time(runtime, {.elements = elements, .ranks = ranks}));
  make_ascend(times);
  return times;
}

/// A machine for each host, with as many devices as processes.
std::vector<MachineGroup> machines_of(const std::vector<std::string>& hosts, double cores) {
  std::vector<MachineGroup> machines;
  for (const std::string& host : hosts) {
    if (!machines.empty() && machines.back().names.front() == host) {
      ++machines.back().devices;
      continue;
    }
    for (const MachineGroup& before : machines)
      if (before.names.front() == host)
        throw UserError("the processes of host '" + host + "' do not follow each other",
                        "rank i of a run is on device i of the cluster, which has the devices host "
                        "by host",
                        "start them host by host, as mpirun --map-by slot does",
                        ExitCode::kBadConfig);
    machines.push_back({.names = {host}, .device = "core", .devices = 1, .cores = cores});
  }
  return machines;
}

/// The link that is nearest to the pairs on one host, or on two.
struct FittedLink {
  LinkCost link;
  int pairs = 0;
};
FittedLink link_of(const ProcessTimes& times, bool on_one_host) {
  std::vector<MeasuredTime> all;
  FittedLink fitted;
  for (const PairTimes& pair : times.pairs) {
    if ((times.hosts[pair.a] == times.hosts[pair.b]) != on_one_host) continue;
    all.insert(all.end(), pair.times.begin(), pair.times.end());
    ++fitted.pairs;
  }
  if (fitted.pairs > 0) fitted.link = fit_link(all);
  return fitted;
}

/// A gather among n processes with links of their own, and on a bus that carries what two
/// processes send each other at once.
Seconds gather_time(const GatherTime& gather, int processes, const LinkLevel& level) {
  const double received = static_cast<double>(gather.whole.value()) * (processes - 1) / processes;
  const double flows = level.sharing == LinkSharing::kBus ? processes : 1;
  return Seconds((processes - 1) * level.link.latency.value() +
                 flows * received / level.link.bytes_per_second);
}

double fit_error(const ProcessTimes& times, int processes, const LinkLevel& level) {
  double sum = 0;
  for (const GatherTime& gather : times.gathers)
    sum +=
        std::abs(std::log(gather_time(gather, processes, level).value() / gather.measured.value()));
  return sum;
}

LinkLevel level_of_host(const ProcessTimes& times, const LinkCost& link, bool has_one_host) {
  const auto processes = static_cast<int>(times.hosts.size());
  const LinkLevel own{"processes", link, LinkSharing::kSwitch};
  LinkLevel bus{"processes", link, LinkSharing::kBus};
  bus.link.bytes_per_second *= 2;
  const bool is_shared = has_one_host && processes > 2 &&
                         fit_error(times, processes, bus) < fit_error(times, processes, own);
  return is_shared ? bus : own;
}

std::string pairs_text(int pairs) {
  return fmt::format("measured {}: exchanges of {} of processes", today(), counted(pairs, "pair"));
}

void set_link_sources(ClusterDescription& description, const std::string& place,
                      const std::string& link) {
  description.sources[place] = "processes of the job";
  description.sources[place + ".latency"] = link;
  description.sources[place + ".bandwidth"] = link;
}

/// What every process knows of a job.
DeviceType measured_core(Runtime& runtime) {
  std::string text;
  runtime.on_all_processes([&] {
    if (runtime.is_leader()) text = to_json(to_document(measure_machine()));
  });
  const std::string leader = all_texts(runtime, text).front();
  return parse_cluster_description(parse_json(leader, "the leader"), "the leader").types.front();
}

}  // namespace

std::vector<std::pair<int, int>> pairs_to_measure(const std::vector<std::string>& hosts,
                                                  int largest) {
  std::vector<std::pair<int, int>> of_one, of_two;
  const auto count = static_cast<int>(hosts.size());
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) (hosts[a] == hosts[b] ? of_one : of_two).emplace_back(a, b);
  std::vector<std::pair<int, int>> chosen;
  const bool has_both = !of_one.empty() && !of_two.empty();
  for (const auto* list : {&of_one, &of_two}) {
    const size_t all = list->size();
    const size_t limit = has_both ? largest / 2 : largest;
    const bool takes_all = of_one.size() + of_two.size() <= static_cast<size_t>(largest);
    const size_t taken = takes_all ? all : std::min(all, limit);
    for (size_t i = 0; i < taken; ++i) chosen.push_back((*list)[i * all / taken]);
  }
  return chosen;
}

ClusterDescription cluster_of_processes(const ProcessTimes& times, const DeviceType& core,
                                        double cores) {
  ClusterDescription description;
  description.name = fmt::format("{} processes", times.hosts.size());
  description.types = {core};
  description.types.front().name = "core";
  description.machines = machines_of(times.hosts, cores);
  description.sources["device.core"] = "operating system";
  const FittedLink inside = link_of(times, true), between = link_of(times, false);
  const bool has_one_host = description.machines.size() == 1;
  for (size_t m = 0; m < description.machines.size(); ++m) {
    MachineGroup& machine = description.machines[m];
    const std::string place = fmt::format("machine[{}]", m);
    description.sources[place] = "processes of the job";
    description.sources[place + ".cores"] = "operating system of the leader";
    if (machine.devices == 1) continue;
    machine.levels = {{level_of_host(times, inside.link, has_one_host), 0}};
    set_link_sources(description, place + ".links[0]", pairs_text(inside.pairs));
    if (has_one_host)
      description.sources[place + ".links[0].sharing"] =
          fmt::format("measured {}: gathers among all", today());
  }
  if (has_one_host) return description;
  const std::vector<int> one_switch(description.machines.size(), 0);
  description.network = {{{"network", between.link, LinkSharing::kSwitch}, 0, one_switch}};
  set_link_sources(description, "network[0]", pairs_text(between.pairs));
  description.assumed.push_back("the cores of the other hosts are like those of the leader");
  return description;
}

MeasuredProcesses measure_processes(const RuntimeOptions& options, int processes) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < processes; ++rank) ranks.push_back(rank);
  Runtime runtime(ranks, options);
  MeasuredProcesses measured;
  ProcessTimes& times = measured.times;
  times.hosts = all_texts(runtime, name_of_this_machine());
  machines_of(times.hosts, 1);  // refuses another order
  const DeviceType core = measured_core(runtime);
  for (const auto& [a, b] : pairs_to_measure(times.hosts, kMeasuredPairs))
    times.pairs.push_back({a, b, times_between(runtime, {a, b})});
  if (processes > 2)
    for (int64_t elements = int64_t{256} * processes; elements <= 1 << 20; elements *= 16) {
      const GatherChain chain{.elements = elements, .ranks = ranks};
      times.gathers.push_back({Bytes(elements * 4), exchange_time(runtime, chain).time});
    }
  const auto cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  measured.description = cluster_of_processes(times, core, cores);
  auto& sources = measured.description.sources;
  sources["device.core.rates"] =
      fmt::format("measured {}: kernels of the grid on one core of the leader", today());
  if (const auto& levels = measured.description.machines.front().levels; !levels.empty())
    for (GatherTime& gather : times.gathers)
      gather.predicted = gather_time(gather, processes, levels.front().level);
  return measured;
}

}  // namespace tessera
