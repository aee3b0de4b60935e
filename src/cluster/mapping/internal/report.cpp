#include <fmt/format.h>

#include <algorithm>

#include "cluster/mapping/internal/device_tree.h"
#include "cluster/mapping/internal/problem.h"
#include "cluster/mapping/mapping.h"

namespace tessera {
namespace {

/// The place of each rank in the whole tree.
Places places_of(const DeviceTree& tree, const std::vector<DeviceId>& devices) {
  std::vector<Place> place(tree.size());
  for (Place p = 0; p < tree.size(); ++p) place[tree.device(p)] = p;
  Places places;
  for (DeviceId device : devices) places.push_back(place.at(device));
  return places;
}

double price(const RankTraffic& sent, const LinkPrice& link) {
  return sent.weight * (static_cast<double>(sent.bytes.value()) * link.per_byte +
                        sent.messages * link.per_message);
}

void add_levels(const std::string& axis, const std::vector<RankTraffic>& traffic,
                const Cluster& cluster, const DeviceTree& tree, const Places& places,
                std::vector<LevelTraffic>& levels) {
  std::vector<std::pair<double, LevelTraffic>> found;  // with the price of a byte, for the order
  for (const RankTraffic& sent : traffic) {
    if (sent.from == sent.to) continue;
    const Place a = places[sent.from], b = places[sent.to];
    const std::string level = cluster.level(tree.device(a), tree.device(b));
    const LinkPrice link = tree.link(a, b);
    auto at = std::find_if(found.begin(), found.end(),
                           [&](const auto& other) { return other.second.level == level; });
    if (at == found.end()) at = found.insert(at, {link.per_byte, {axis, level, 0, Seconds(0)}});
    at->second.bytes += static_cast<double>(sent.bytes.value());
    at->second.cost += Seconds(price(sent, link));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [per_byte, level] : found) levels.push_back(std::move(level));
}

}  // namespace

MappingCost mapping_cost(const MappingInput& input, const Cluster& cluster,
                         const std::vector<DeviceId>& devices) {
  const DeviceTree tree(cluster);
  const Places places = places_of(tree, devices);
  std::vector<double> bytes(cluster.channels().size(), 0);
  double cost = 0;
  for (const RankTraffic& sent : all_traffic(input)) {
    if (sent.from == sent.to) continue;
    cost += price(sent, tree.link(places[sent.from], places[sent.to]));
    for (ChannelId channel : cluster.path(devices[sent.from], devices[sent.to]))
      bytes[channel] += static_cast<double>(sent.bytes.value());
  }
  MappingCost made{Seconds(cost), Seconds(0), ""};
  for (size_t c = 0; c < bytes.size(); ++c) {
    const Seconds busy(bytes[c] / cluster.channels()[c].bytes_per_second);
    if (busy > made.busiest) made = {made.cost, busy, cluster.channels()[c].name};
  }
  return made;
}

std::vector<LevelTraffic> level_traffic(const MappingInput& input, const Cluster& cluster,
                                        const std::vector<DeviceId>& devices) {
  const DeviceTree tree(cluster);
  const Places places = places_of(tree, devices);
  std::vector<LevelTraffic> levels;
  for (size_t axis = 0; input.grid && axis < input.grid->axes.size(); ++axis)
    add_levels(input.grid->axes[axis].name, axis_traffic(*input.grid, static_cast<int>(axis)),
               cluster, tree, places, levels);
  add_levels("", input.traffic, cluster, tree, places, levels);
  return levels;
}

std::string mapping_report(const Mapping& mapping) {
  std::string text =
      fmt::format("cost {} of links a step, {}", to_text(mapping.cost.cost),
                  mapping.optimal ? "which is the least"
                                  : fmt::format("at most {:.1f}% above the least ({})",
                                                100 * mapping.gap(), to_text(mapping.bound)));
  text += fmt::format("; found by: {}{}\n", to_text(mapping.method),
                      mapping.exchanged ? " and exchanges" : "");
  if (!mapping.cost.busiest_channel.empty())
    text += fmt::format("busiest channel: {}, {}\n", mapping.cost.busiest_channel,
                        to_text(mapping.cost.busiest));
  for (const LevelTraffic& level : mapping.levels)
    text +=
        fmt::format("{:<8} {:<10} {:>10.3f} GB  {}\n", level.axis.empty() ? "other" : level.axis,
                    level.level, level.bytes / 1e9, to_text(level.cost));
  return text;
}

}  // namespace tessera
