#include "measure/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "cluster/presets.h"
#include "measure/exchange_times.h"
#include "measure/kernel_times.h"

namespace tessera {
namespace {

/// The cores on which this process may run.
int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  // A container may have a part of the time of the cores: "200000 100000" is two of them.
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  double most = 0, period = 0;
  if (quota >> most >> period && period > 0)
    return std::clamp(static_cast<int>(most / period), 1, count);
  return std::max(count, 1);
}

/// The memory of the machine, or what a container may use of it.
Bytes available_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  int64_t bytes = std::max<int64_t>(pages, 1) * std::max<int64_t>(page, 1);
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  if (int64_t most = 0; limit >> most && most > 0) bytes = std::min(bytes, most);
  return Bytes(bytes);
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "n0";
  std::string text(name);
  std::ranges::replace_if(
      text, [](char c) { return c == '/' || c == '[' || c == ']' || c == ','; }, '_');
  return text;
}

void add_to_launches(DeviceCost& cost, Seconds time) {
  cost.launch += time;
  for (auto& [operation, rates] : cost.classes)
    if (rates.launch) *rates.launch += time;
  for (auto& [kernel, rates] : cost.kernels)
    if (rates.launch) *rates.launch += time;
}

}  // namespace

ClusterDescription detect_machine() {
  const DevicePreset& preset = *find_preset("cpu");
  const int cores = available_cores();
  DeviceType core = device_of(preset);
  core.name = "core";
  core.memory = Bytes(available_memory().value() / cores);
  core.source = "memory and cores from the operating system, rates of a common machine";
  MachineGroup machine = machine_of(preset, cores);
  machine.names = {host_name()};
  machine.device = core.name;
  return {"this machine", {core}, {machine}, {}, {}};
}

ClusterDescription measure_machine(const std::function<void(double)>& progress) {
  ClusterDescription description = detect_machine();
  DeviceType& core = description.types.front();
  const auto scaled = [&](double done) { progress(0.9 * done); };
  core.cost = rates_of(measure_kernels(progress ? scaled : std::function<void(double)>()));
  add_to_launches(core.cost, dispatch_time());
  core.cost.copied_bytes_per_second = copy_rate();
  if (progress) progress(0.9);
  description.machines.front().levels.front().level.link = fit_link(measure_exchanges());
  core.source = "memory and cores from the operating system, rates measured on one core";
  if (progress) progress(1);
  return description;
}

}  // namespace tessera
