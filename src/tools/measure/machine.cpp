#include "tools/measure/machine.h"

#include "cluster/cluster/detect.h"
#include "cluster/cluster/sources.h"
#include "tools/measure/internal/exchange_times.h"
#include "tools/measure/kernel_times.h"

namespace tessera {
namespace {

void add_to_launches(DeviceCost& cost, Seconds time) {
  cost.launch += time;
  for (auto& [operation, rates] : cost.classes)
    if (rates.launch) *rates.launch += time;
  for (auto& [kernel, rates] : cost.kernels)
    if (rates.launch) *rates.launch += time;
}

/// Where the values that were measured come from.
void set_sources(ClusterDescription& description) {
  auto& sources = description.sources;
  const std::string measured = "measured " + today() + ": ",
                    rates = "device." + description.types.front().name + ".rates";
  sources[rates] = measured + "kernels of the grid on one core";
  sources[rates + ".launch"] = measured + "the smallest calls, and programs of many kernels";
  sources[rates + ".copies"] = measured + "copies of blocks of 1 MB";
  const std::vector<InnerLevel>& levels = description.machines.front().levels;
  for (size_t i = 0; i < levels.size(); ++i) {
    const std::string link = "machine[0].links[" + std::to_string(i) + "]",
                      how = i == 0 ? "exchanges of two threads"
                                   : "exchanges of two threads x the ratio of the preset";
    sources[link] = "operating system";
    sources[link + ".latency"] = measured + how;
    sources[link + ".bandwidth"] = measured + how;
    sources[link + ".sharing"] = sources[link + ".ports"] = "preset 'cpu': a common machine";
  }
}

}  // namespace

ClusterDescription measure_machine(const std::function<void(double)>& progress) {
  ClusterDescription description = detect_machine();
  DeviceType& core = description.types.front();
  const auto scaled = [&](double done) { progress(0.9 * done); };
  core.cost = rates_of(measure_kernels(progress ? scaled : std::function<void(double)>()));
  add_to_launches(core.cost, dispatch_time());
  core.cost.copied_bytes_per_second = copy_rate();
  if (progress) progress(0.9);
  std::vector<InnerLevel>& levels = description.machines.front().levels;
  const LinkCost detected = levels.front().level.link, measured = fit_link(measure_exchanges());
  for (InnerLevel& level : levels) {  // the levels above keep their ratio to the first one
    LinkCost& link = level.level.link;
    link.bytes_per_second *= measured.bytes_per_second / detected.bytes_per_second;
    link.latency =
        Seconds(link.latency.value() * measured.latency.value() / detected.latency.value());
  }
  set_sources(description);
  core.source = "memory and cores from the operating system, rates measured on one core";
  if (progress) progress(1);
  return description;
}

}  // namespace tessera
