#include "cli/print/cluster_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/count_text.h"
#include "cli/print/text_table.h"
#include "cluster/cluster_file.h"
#include "cost/quantity.h"

namespace tessera {
namespace {

/// Four digits are enough for readers.
std::string rate_text(double value, const UnitTable& units) {
  return quantity_text(std::stod(fmt::format("{:.4g}", value)), units);
}

std::string bandwidth(double bytes_per_second) {
  return rate_text(bytes_per_second, byte_rate_units());
}

std::string arithmetic(const DeviceCost& cost, DType dtype) {
  return rate_text(cost.flops_rate(OperationClass::kMatmul, dtype), arithmetic_units());
}

std::string types_text(const Cluster& cluster) {
  TextTable table({"device", "kind", "count", "memory", "for libraries", "f32 products",
                   "bf16 products", "memory bandwidth", "source"},
                  "llrrrrrrl");
  for (const DeviceGroup& group : cluster.groups()) {
    const DeviceType& type = cluster.type(group.devices.front());
    table.add({type.name, std::string(to_text(type.kind)), std::to_string(group.devices.size()),
               to_text(type.memory), to_text(type.reserve), arithmetic(type.cost, DType::kF32),
               arithmetic(type.cost, DType::kBF16), bandwidth(type.cost.bytes_per_second),
               type.source});
  }
  return "Devices\n" + table.text();
}

std::string names_text(const std::vector<std::string>& names) {
  return names.size() == 1 ? names.front() : names.front() + " .. " + names.back();
}

std::string level_text(const LinkLevel& level, const std::string& child, double oversubscription) {
  const std::string latency = to_text(level.link.latency);
  if (oversubscription > 0)
    return fmt::format("1/{:g} of what its switches can send, {}", oversubscription, latency);
  const std::string ports = level.ports > 1 ? std::to_string(level.ports) + " x " : "";
  const std::string rate = ports + bandwidth(level.link.bytes_per_second);
  switch (level.sharing) {
    case LinkSharing::kSwitch: return rate + " a " + child + ", " + latency;
    case LinkSharing::kBus: return rate + " shared, " + latency;
    case LinkSharing::kMesh: return rate + " between each two, " + latency;
  }
  return rate;
}

/// The levels from the outside in.
std::string drawing(const ClusterDescription& cluster) {
  std::string text, indent;
  const auto add = [&](const std::string& line) { text += "  " + indent + line + "\n"; };
  for (size_t i = cluster.network.size(); i-- > 0;) {
    const NetworkLevel& level = cluster.network[i];
    const int switches =
        1 + *std::max_element(level.switch_of_child.begin(), level.switch_of_child.end());
    add(fmt::format("{}{}: {}", level.level.name,
                    switches > 1 ? " (" + counted(switches, "switch") + ")" : "",
                    level_text(level.level, i > 0 ? "switch" : "machine", level.oversubscription)));
    indent += "  ";
  }
  const std::string outer = indent;
  for (const MachineGroup& machine : cluster.machines) {
    add(fmt::format("{}: {} x {}{}", names_text(machine.names), machine.devices, machine.device,
                    machine.names.size() > 1 ? " in each machine" : ""));
    for (size_t i = machine.levels.size(); i-- > 0;) {
      indent += "  ";
      add(fmt::format("{}: {}", machine.levels[i].level.name,
                      level_text(machine.levels[i].level, i > 0 ? "group" : "device", 0)));
    }
    if (!machine.direct.empty()) {
      double least = std::numeric_limits<double>::infinity(), most = 0;
      for (const DirectLink& link : machine.direct) {
        least = std::min(least, link.link.bytes_per_second);
        most = std::max(most, link.link.bytes_per_second);
      }
      indent += "  ";
      add(fmt::format("{} between two devices: {} to {}",
                      counted(std::ssize(machine.direct), "direct link"), bandwidth(least),
                      bandwidth(most)));
    }
    indent = outer;
  }
  return text;
}

}  // namespace

std::string cluster_text(const Cluster& cluster) {
  const ClusterDescription& description = cluster.description();
  std::string text = fmt::format(
      "{}{} in {}\n\n", description.name.empty() ? "" : description.name + ": ",
      counted(cluster.device_count(), "device"), counted(cluster.machine_count(), "machine"));
  text += types_text(cluster) + "\nLinks, in one direction\n" + drawing(description);
  for (const DirectLink& link : description.direct)
    text += fmt::format("  {} to {}: {}, {}\n", cluster.name(link.a), cluster.name(link.b),
                        bandwidth(link.link.bytes_per_second), to_text(link.link.latency));
  return text;
}

Document cluster_document(const Cluster& cluster) {
  Document document;
  document["kind"] = "cluster";
  document["devices"] = cluster.device_count();
  document["machines"] = cluster.machine_count();
  document["groups"] = Document::List{};
  for (const DeviceGroup& group : cluster.groups())
    document["groups"].append(
        Document::Table{{"device", group.type}, {"count", std::ssize(group.devices)}});
  document["description"] = to_document(cluster.description());
  return document;
}

}  // namespace tessera
