#include "tools/cli/internal/print/plan/cluster_table.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/count_text.h"
#include "base/text/text.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {

ClusterRow cluster_row(const Planned& planned, int devices, const std::string& plan,
                       const EvaluatedCandidate* best) {
  ClusterRow row{.cluster = planned.cluster_name, .devices = devices, .plan = plan};
  if (!best) return row;
  row.step = best->step();
  row.units_per_second = planned.units_per_second(*best);
  row.utilization = planned.utilization(*best);
  row.fullest = best->fullest;
  return row;
}

std::string clusters_text(const std::vector<ClusterRow>& rows, const std::string& unit) {
  TextTable table({"cluster", "devices", "step", unit + "s/s", "a device", "MFU", "memory", "plan"},
                  "lrrrrrll");
  for (const ClusterRow& row : rows) {
    if (!row.step) {
      table.add({row.cluster, grouped(row.devices), "-", "-", "-", "-", "-", "no plan fits"});
      continue;
    }
    table.add({row.cluster, grouped(row.devices), step_text(*row.step),
               grouped(std::llround(row.units_per_second)),
               grouped(std::llround(row.units_per_second / row.devices)),
               fmt::format("{:.1f}%", 100 * row.utilization),
               to_text(row.fullest.memory.all()) + " of " + to_text(row.fullest.memory.capacity),
               row.plan});
  }
  return table.text(0);
}

Document clusters_document(const std::vector<ClusterRow>& rows) {
  Document document;
  document["clusters"] = Document::List{};
  for (const ClusterRow& row : rows) {
    Document item;
    item["cluster"] = row.cluster;
    item["devices"] = row.devices;
    item["plan"] = item["step_seconds"] = item["mfu"] = item["units_per_second"] = Document();
    item["peak_bytes"] = item["capacity_bytes"] = Document();
    if (row.step) {
      item["plan"] = row.plan;
      item["step_seconds"] = row.step->value();
      item["mfu"] = row.utilization;
      item["units_per_second"] = row.units_per_second;
      item["peak_bytes"] = row.fullest.memory.all().value();
      item["capacity_bytes"] = row.fullest.memory.capacity.value();
    }
    document["clusters"].append(std::move(item));
  }
  return document;
}

}  // namespace tessera
