#include <algorithm>

#include "base/files/file.h"
#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/profile_file.h"
#include "cluster/cost/cost_file.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

Document byte_count(Bytes bytes) {
  return quantity_text(static_cast<double>(bytes.value()), byte_units());
}

Document document_of(const DeviceType& type) {
  Document table;
  table["kind"] = std::string(to_text(type.kind));
  table["memory"] = byte_count(type.memory);
  table["reserve"] = byte_count(type.reserve);
  table["rates"] = to_document(type.cost);
  if (!type.peaks.empty()) table["peaks"] = to_document(type.peaks);
  if (type.sustained != 1) table["sustained"] = type.sustained;
  if (!type.source.empty()) table["source"] = type.source;
  return table;
}

Document document_of(const LinkLevel& level, bool has_bandwidth) {
  Document table;
  table["name"] = level.name;
  const Document link = to_document(level.link);
  for (const auto& [key, value] : link.as_table())
    if (has_bandwidth || key != "bandwidth") table[key] = value;
  if (!has_bandwidth) return table;
  table["sharing"] = std::string(to_text(level.sharing));
  table["ports"] = level.ports;
  return table;
}

Document document_of(const MachineGroup& machine) {
  Document table;
  table["names"] = join(machine.names, ",");
  table["device"] = machine.device;
  table["devices"] = machine.devices;
  if (machine.cores > 0) table["cores"] = machine.cores;
  if (machine.network) {
    table["network"]["bandwidth"] =
        quantity_text(machine.network->bytes_per_second, byte_rate_units());
    table["network"]["ports"] = machine.network->ports;
  }
  for (const InnerLevel& inner : machine.levels) {
    Document level = document_of(inner.level, true);
    if (inner.size > 0) level["size"] = inner.size;
    table["links"].append(std::move(level));
  }
  for (const DirectLink& direct : machine.direct) {
    Document link = to_document(direct.link);
    link["devices"].append(direct.a);
    link["devices"].append(direct.b);
    table["direct"].append(std::move(link));
  }
  return table;
}

/// The names of the machines below each child of a level of the network.
using Below = std::vector<std::vector<std::string>>;

Below joined(const Below& below, const std::vector<int>& switch_of_child) {
  Below result(1 + *std::max_element(switch_of_child.begin(), switch_of_child.end()));
  for (size_t i = 0; i < below.size(); ++i)
    result[switch_of_child[i]].insert(result[switch_of_child[i]].end(), below[i].begin(),
                                      below[i].end());
  return result;
}

}  // namespace

Document to_document(const ClusterDescription& description) {
  Document document;
  if (!description.name.empty()) document["name"] = description.name;
  for (const DeviceType& type : description.types)
    document["device"][type.name] = document_of(type);
  Below below;
  for (const MachineGroup& machine : description.machines) {
    document["machine"].append(document_of(machine));
    for (const std::string& name : machine.names) below.push_back({name});
  }
  for (const NetworkLevel& network : description.network) {
    Document level = document_of(network.level, network.oversubscription == 0);
    if (network.oversubscription > 0) level["oversubscription"] = network.oversubscription;
    below = joined(below, network.switch_of_child);
    if (below.size() > 1)
      for (const std::vector<std::string>& names : below)
        level["switches"].append(join(names, ","));
    document["network"].append(std::move(level));
  }
  const Cluster cluster(description);
  for (const DirectLink& direct : description.direct) {
    Document link = to_document(direct.link);
    link["between"].append(cluster.name(direct.a));
    link["between"].append(cluster.name(direct.b));
    document["link"].append(std::move(link));
  }
  if (!(description.runtime == RuntimeProfile{}))
    document["runtime"] = to_document(description.runtime);
  for (const std::string& text : description.assumed) document["assumed"].append(text);
  for (const auto& [place, source] : description.sources) document["sources"][place] = source;
  return document;
}

void write_cluster(const std::filesystem::path& file, const ClusterDescription& description) {
  const Document document = to_document(description);
  write_file(file, file.extension() == ".json" ? to_json(document, 2) + "\n" : to_toml(document));
}

}  // namespace tessera
