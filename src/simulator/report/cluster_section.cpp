#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text/count_text.h"
#include "base/text/number_list.h"
#include "simulator/report/internal/html.h"
#include "simulator/report/internal/sections.h"

namespace tessera {
namespace {

constexpr int kMaxMachines = 64;
constexpr int kMeshStyles = 8;
constexpr double kCell = 44, kGap = 16, kTitle = 16;

/// By rank, the index of the mesh that has it; hosts of devices have the ranks of their mesh again.
std::map<Rank, int> mesh_of_ranks(const TaskGraph& graph) {
  std::map<Rank, int> meshes;
  int next = 0;
  for (const MeshPtr& mesh : graph.meshes) {
    bool is_new = false;
    for (Rank rank : mesh->ranks()) is_new = meshes.try_emplace(rank, next).second || is_new;
    if (is_new) ++next;
  }
  return meshes;
}

std::string device_drawing(double x, double y, const std::string& name,
                           const std::vector<Rank>& ranks, const std::map<Rank, int>& meshes) {
  const std::string list = number_list(ranks);
  const std::string style =
      ranks.empty() ? "frame" : fmt::format("mesh{}", meshes.at(ranks.front()) % kMeshStyles);
  const std::string title =
      ranks.empty() ? name + ": no rank"
                    : fmt::format("{}: {} {}, stage {}", name, ranks.size() == 1 ? "rank" : "ranks",
                                  list, meshes.at(ranks.front()));
  return drawn({x, y, kCell - 4, kCell - 4, style, title}) +
         drawn_text(x + kCell / 2 - 2, y + kCell / 2 + 3, list, "middle", "label");
}

}  // namespace

std::string cluster_section(const ReportedPlan& plan) {
  const Cluster& cluster = *plan.deployment->cluster;
  std::map<DeviceId, std::vector<Rank>> ranks_on;
  for (Rank rank = 0; rank < std::ssize(plan.deployment->device_of_rank); ++rank)
    ranks_on[plan.deployment->device(rank)].push_back(rank);
  const std::map<Rank, int> meshes = mesh_of_ranks(*plan.tasks);
  const int machines = std::min(cluster.machine_count(), kMaxMachines);
  double x = 0, y = 0, below = 0;
  std::string body;
  for (int machine = 0; machine < machines; ++machine) {
    const auto devices = cluster.devices_of(machine);
    const int columns = std::clamp<int>(static_cast<int>(devices.size()), 1, 8);
    const int rows = (static_cast<int>(devices.size()) + columns - 1) / columns;
    const double width = columns * kCell + 8, height = kTitle + rows * kCell + 8;
    if (x > 0 && x + width > kDrawingWidth) {
      x = 0;
      y = below + kGap;
    }
    body += drawn({x, y + kTitle, width, height - kTitle, "frame", ""});
    body += drawn_text(x, y + kTitle - 4, cluster.machine_name(machine));
    for (size_t i = 0; i < devices.size(); ++i)
      body += device_drawing(x + 6 + static_cast<double>(i % columns) * kCell,
                             y + kTitle + 6 + static_cast<double>(i / columns) * kCell,
                             cluster.name(devices[i]), ranks_on[devices[i]], meshes);
    x += width + kGap;
    below = std::max(below, y + height);
  }
  std::vector<LegendEntry> entries;
  int stages = 0;
  for (const auto& [rank, mesh] : meshes) stages = std::max(stages, mesh + 1);
  for (int stage = 0; stage < std::min(stages, kMeshStyles); ++stage)
    entries.push_back({fmt::format("mesh{}", stage), fmt::format("ranks of stage {}", stage)});
  std::string text =
      drawing(kDrawingWidth, below + 2, "ranks on the devices", body) + legend(entries);
  if (machines < cluster.machine_count())
    text += note("... and " + counted(cluster.machine_count() - machines, "machine") + " more");
  if (plan.mapping) text += "<pre>" + escaped_lines(mapping_report(*plan.mapping)) + "</pre>\n";
  return section("Ranks on the devices", text);
}

}  // namespace tessera
