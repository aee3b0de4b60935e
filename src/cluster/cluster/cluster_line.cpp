#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/internal/line_parts.h"
#include "cluster/cluster/internal/presets.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_line(std::string_view line, const std::string& why,
                              const std::string& fix) {
  throw UserError("'" + std::string(line) + "' is no cluster: it is no file and no description",
                  why, fix, ExitCode::kBadConfig);
}

constexpr const char* kExample =
    "write 8xa100-80g for one machine of eight devices, 4x8xh100-sxm;ib=400Gb for four machines "
    "and their network, or name a file that ends with .toml or .json";

/// The counts and the name of "4x8xh100-sxm". A name may have an x: counts stand before it.
std::pair<std::vector<std::string>, std::string_view> parts_of(std::string_view item) {
  std::vector<std::string> counts;
  for (size_t at = item.find_first_of("xX");
       at != std::string_view::npos && at > 0 && counts.size() < 2 &&
       item.find_first_not_of("0123456789") == at;
       at = item.find_first_of("xX")) {
    counts.emplace_back(item.substr(0, at));
    item.remove_prefix(at + 1);
  }
  if (const size_t colon = item.find(':'); counts.empty() && colon != std::string_view::npos) {
    counts.emplace_back(item.substr(colon + 1));
    item = item.substr(0, colon);
  }
  return {counts, item};
}

void add_type(const DevicePreset& preset, std::vector<DeviceType>& types) {
  for (const DeviceType& type : types)
    if (type.name == preset.name) return;
  types.push_back(device_of(preset));
}

/// The line with a known device in place of an unknown one, "8x8xh100-sxm" for "8x8h100-sxm"; ""
/// for no device.
std::string line_with_device(std::string_view line, std::string_view unknown, std::string device) {
  if (device.empty()) return {};
  const size_t digits = std::min(unknown.find_first_not_of("0123456789"), unknown.size());
  if (unknown.substr(digits) == device)
    device = std::string(unknown.substr(0, digits)) + "x" + device;
  std::string known(line);
  return known.replace(known.find(unknown), unknown.size(), device);
}

}  // namespace

int count_of_line(std::string_view text, std::string_view line) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > 1 << 20)
    refuse_line(line, "'" + std::string(text) + "' is no count from 1 to 1,048,576", kExample);
  return count;
}

MachinesOfLine machines_of_line(std::string_view item, std::string_view line) {
  MachinesOfLine machines;
  const auto [parts, rest] = parts_of(item);
  machines.preset = find_preset(rest);
  if (!machines.preset) {
    const std::vector<std::string> names = preset_names();
    const std::string close = line_with_device(line, rest, nearest_preset(rest));
    refuse_line(
        line,
        "no device is called '" + std::string(rest) + "'; known devices are " + join(names, ", "),
        close.empty() ? kExample : "write '" + close + "'");
  }
  if (!parts.empty()) machines.devices = count_of_line(parts.back(), line);
  if (parts.size() == 2) machines.machines = count_of_line(parts.front(), line);
  return machines;
}

LinkLevel network_of_line(std::string_view item, int devices, std::string_view line) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos || equals == 0)
    refuse_line(line, "after ; stands the network, a name and the bandwidth of a port", kExample);
  std::string_view value = trim(item.substr(equals + 1));
  LinkLevel level{std::string(trim(item.substr(0, equals))), {Seconds(5e-6), 0}};
  level.ports = devices;
  if (const size_t x = value.find('x'); x != std::string_view::npos) {
    level.ports = count_of_line(value.substr(0, x), line);
    value.remove_prefix(x + 1);
  }
  const std::string rate = std::string(value) + (value.ends_with("/s") ? "" : "/s");
  const std::optional<double> bandwidth = parse_quantity(rate, byte_rate_units());
  if (!bandwidth || !(*bandwidth > 0) || *bandwidth > 1e18)
    refuse_line(line,
                "'" + std::string(value) + "' is no bandwidth: a number and its unit, " +
                    unit_names(byte_rate_units()),
                "write ib=400Gb for 400 gigabits a second of each device of a machine, or "
                "ib=2x200Gb for two ports of a machine");
  level.link.bytes_per_second = *bandwidth;
  return level;
}

bool is_cluster_line(std::string_view line) {
  const std::string first = split_text(split_text(line, ';').front(), '+').front();
  return find_preset(parts_of(trim(first)).second) != nullptr;
}

std::string line_of_devices(std::string_view text) {
  if (split_text(text, ';').size() > 1 || split_text(text, '+').size() > 1)
    refuse_line(text, "a number of devices has one type and no network", kExample);
  const MachinesOfLine like = machines_of_line(trim(text), text);
  if (like.machines > 1)
    refuse_line(text, "a number of devices says nothing of machines", "give it as the cluster");
  const int size = like.preset->devices;
  if (like.devices <= size) return std::string(text);
  if (like.devices % size != 0)
    refuse_line(text,
                fmt::format("machines of {} have {} devices, and {} of them fill no machines",
                            like.preset->name, size, like.devices),
                fmt::format("take {}, or describe the machines as in 4x8xh100-sxm",
                            like.devices / size * size));
  return fmt::format("{}x{}x{}", like.devices / size, size, parts_of(trim(text)).second);
}

Cluster parse_cluster_line(std::string_view line) {
  const std::vector<std::string> halves = split_text(line, ';');
  if (halves.size() > 2) refuse_line(line, "it has several networks", kExample);
  ClusterDescription description;
  description.name = line;
  LinkLevel network;
  int machines = 0, max_devices = 0;
  for (const std::string& item : split_text(halves.front(), '+')) {
    const MachinesOfLine like = machines_of_line(trim(item), line);
    if (int64_t{like.machines} * like.devices > 1 << 20)
      refuse_line(line, "it has more than 1,048,576 devices", "describe a part of it");
    add_type(*like.preset, description.types);
    MachineGroup group = machine_of(*like.preset, like.devices);
    for (int i = 0; i < like.machines; ++i) group.names.push_back("n" + std::to_string(machines++));
    description.machines.push_back(std::move(group));
    const LinkLevel level = network_of(*like.preset);
    if (network.ports == 0 || network.name.empty() ||
        level.bytes_per_second() < network.bytes_per_second())
      network = level;
    max_devices = std::max(max_devices, like.devices);
  }
  if (halves.size() == 2) network = network_of_line(trim(halves.back()), max_devices, line);
  if (machines > 1) description.network.push_back({network, 0, std::vector<int>(machines, 0)});
  return Cluster(std::move(description));
}

}  // namespace tessera
