#include "tools/cli/internal/print/cluster_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/sources.h"
#include "cluster/cost/quantity.h"
#include "tools/cli/internal/print/text_table.h"

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
  return names.size() <= 2 ? join(names, ", ") : names.front() + " .. " + names.back();
}

std::string level_text(const LinkLevel& level, const std::string& child, double oversubscription) {
  std::string latency = to_text(level.link.latency);
  if (level.link.start > Seconds(0))
    latency += " and " + to_text(level.link.start) + " an exchange";
  if (oversubscription == 1) return "all that its switches can send, " + latency;
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

constexpr size_t kListedSwitches = 16;  // of a level
constexpr int kDrawnDevices = 16;       // of a machine, in a matrix of its links

/// The machines of each switch of a level, as "n0 .. n1 | n2 .. n3"; "" for one switch.
std::string switches_text(const std::vector<std::vector<std::string>>& below) {
  if (below.size() < 2) return "";
  std::string text;
  for (size_t i = 0; i < std::min(below.size(), kListedSwitches); ++i)
    text += (i > 0 ? " | " : "") + names_text(below[i]);
  return text + (below.size() > kListedSwitches ? " | ..." : "");
}

/// A line of the drawing: what, and after it its links.
struct DrawnLine {
  int depth = 0;
  std::string what, links;
};

void draw_network(const Cluster& cluster, std::vector<DrawnLine>& lines) {
  std::vector<std::vector<std::string>> below;
  for (int machine = 0; machine < cluster.machine_count(); ++machine)
    below.push_back({cluster.machine_name(machine)});
  const std::vector<NetworkLevel>& levels = cluster.description().network;
  const int count = static_cast<int>(levels.size());
  for (int i = 0; i < count; ++i) {
    const NetworkLevel& level = levels[i];
    std::vector<std::vector<std::string>> joined;
    for (size_t child = 0; child < below.size(); ++child) {
      const size_t at = level.switch_of_child[child];
      joined.resize(std::max(joined.size(), at + 1));
      joined[at].insert(joined[at].end(), below[child].begin(), below[child].end());
    }
    below = std::move(joined);
    const std::string machines = switches_text(below);
    const std::string links =
        level_text(level.level, i > 0 ? "switch" : "machine", level.oversubscription);
    lines.insert(lines.begin(),
                 {count - 1 - i,
                  below.size() > 1 ? fmt::format("{} x {}", below.size(), level.level.name)
                                   : level.level.name,
                  links + (machines.empty() ? "" : ": " + machines)});
  }
}

void draw_machines(const MachineGroup& machine, int depth, std::vector<DrawnLine>& lines) {
  const size_t count = machine.names.size();
  lines.push_back(
      {depth, (count > 1 ? std::to_string(count) + " x machine" : "machine"),
       fmt::format("{}: {} x {}", names_text(machine.names), machine.devices, machine.device)});
  for (size_t i = machine.levels.size(); i-- > 0;) {
    const InnerLevel& inner = machine.levels[i];
    const int groups = inner.size > 0 && i + 1 < machine.levels.size() ? 1 : 0;
    lines.push_back({++depth, inner.level.name,
                     level_text(inner.level, i > 0 ? "group" : "device", 0) +
                         (groups > 0 ? fmt::format(", in groups of {}", inner.size) : "")});
  }
  if (!machine.direct.empty() && machine.devices > kDrawnDevices)
    lines.push_back(
        {depth, "direct", counted(std::ssize(machine.direct), "link") + " between two devices"});
}

/// The bandwidths between each two devices of a machine.
std::string matrix_text(const Cluster& cluster, int machine) {
  const std::span<const DeviceId> devices = cluster.devices_of(machine);
  std::vector<std::string> header{"GB/s"};
  for (size_t i = 0; i < devices.size(); ++i) header.push_back(std::to_string(i));
  TextTable table(header, std::string(header.size(), 'r'));
  for (size_t a = 0; a < devices.size(); ++a) {
    std::vector<std::string> row{std::to_string(a)};
    for (size_t b = 0; b < devices.size(); ++b)
      row.push_back(
          a == b
              ? "-"
              : fmt::format("{:.4g}", cluster.link(devices[a], devices[b]).bytes_per_second / 1e9));
    table.add(std::move(row));
  }
  return table.text();
}

/// The levels from the outside in, each with its links, and the pairs of machines that have links
/// of their own.
std::string drawing(const Cluster& cluster) {
  std::vector<DrawnLine> lines;
  draw_network(cluster, lines);
  const int outer = static_cast<int>(lines.size());
  for (const MachineGroup& machine : cluster.description().machines)
    draw_machines(machine, outer, lines);
  size_t width = 0;
  for (const DrawnLine& line : lines) width = std::max(width, 2 * line.depth + line.what.size());
  std::string text;
  for (const DrawnLine& line : lines)
    text += fmt::format("  {:<{}}  {}\n", std::string(2 * line.depth, ' ') + line.what, width,
                        line.links);
  int machine = 0;
  for (const MachineGroup& group : cluster.description().machines) {
    if (!group.direct.empty() && group.devices <= kDrawnDevices)
      text += fmt::format("\nLinks between the devices of {}\n{}", names_text(group.names),
                          matrix_text(cluster, machine));
    machine += static_cast<int>(group.names.size());
  }
  return text;
}

/// Clusters of different machines are several device meshes.
std::string meshes_text(const Cluster& cluster) {
  const std::vector<DeviceMesh> meshes = cluster.device_meshes();
  if (meshes.size() < 2) return "";
  TextTable table({"mesh of", "machines", "devices of each", "devices"}, "lrrl");
  for (const DeviceMesh& mesh : meshes)
    table.add({mesh.type, std::to_string(mesh.machines.size()),
               std::to_string(mesh.devices_per_machine),
               cluster.name(mesh.devices.front()) + " .. " + cluster.name(mesh.devices.back())});
  return "\nMeshes of identical devices\n" + table.text();
}

std::string assumed_text(const ClusterDescription& cluster) {
  if (cluster.assumed.empty()) return "";
  std::string text = "\nAssumed\n";
  for (const std::string& line : cluster.assumed) text += "  " + line + "\n";
  return text;
}

std::string sources_text(const ClusterDescription& cluster) {
  if (cluster.sources.empty()) return "";
  TextTable table({"values of", "source"}, "ll");
  for (const auto& [place, source] : cluster.sources) table.add({place, source});
  return "\nSources\n" + table.text();
}

}  // namespace

std::string cluster_text(const Cluster& cluster) {
  const ClusterDescription& description = cluster.description();
  std::string text = fmt::format(
      "{}{} in {}\n\n", description.name.empty() ? "" : description.name + ": ",
      counted(cluster.device_count(), "device"), counted(cluster.machine_count(), "machine"));
  text +=
      types_text(cluster) + meshes_text(cluster) + "\nLinks, in one direction\n" + drawing(cluster);
  for (const DirectLink& link : description.direct)
    text += fmt::format("  {} to {}: {}, {}\n", cluster.name(link.a), cluster.name(link.b),
                        bandwidth(link.link.bytes_per_second), to_text(link.link.latency));
  return text + assumed_text(description) + sources_text(description);
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
  document["meshes"] = Document::List{};
  for (const DeviceMesh& mesh : cluster.device_meshes())
    document["meshes"].append(Document::Table{{"device", mesh.type},
                                              {"machines", std::ssize(mesh.machines)},
                                              {"devices_per_machine", mesh.devices_per_machine}});
  document["assumed"] = Document::List{};
  for (const std::string& text : cluster.description().assumed) document["assumed"].append(text);
  document["fingerprint"] = fingerprint(cluster.description());
  document["description"] = to_document(cluster.description());
  return document;
}

}  // namespace tessera
