#include "simulator/step/place_ranks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace tessera {
namespace {

/// By axes of exchanges: the part of their time that is exposed.
std::map<std::string, double> weights_of(const StepPrediction& prediction) {
  std::map<std::string, double> exposed, all;
  for (const RankBreakdown& rank : prediction.ranks) {
    for (const auto& [axes, time] : rank.exposed) exposed[axes] += time.value();
    for (const auto& [axes, time] : rank.exchanges) all[axes] += time.value();
  }
  std::map<std::string, double> weights;
  for (const auto& [axes, time] : all)
    weights[axes] = time > 0 ? std::clamp(exposed[axes] / time, kMinWeight, 1.0) : 1;
  return weights;
}

/// All meshes as one grid: [pp, axes...], row by row.
struct Grid {
  std::vector<std::string> axes;
  std::vector<int> sizes;
  std::vector<Rank> ranks;
  std::map<Rank, std::vector<int>> coordinates;
};

std::optional<Grid> grid_of(const TaskGraph& graph) {
  std::vector<MeshPtr> stages;  // with different ranks
  for (const MeshPtr& mesh : graph.meshes) {
    const auto is_same = [&](const MeshPtr& other) { return other->ranks() == mesh->ranks(); };
    if (std::none_of(stages.begin(), stages.end(), is_same)) stages.push_back(mesh);
  }
  Grid grid;
  if (stages.size() > 1) {
    grid.axes.push_back("pp");
    grid.sizes.push_back(static_cast<int>(stages.size()));
  }
  const Mesh& first = *stages.front();
  for (int axis = 0; axis < first.axis_count(); ++axis) {
    grid.axes.push_back(first.axes()[axis]);
    grid.sizes.push_back(static_cast<int>(first.shape()[axis]));
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const Mesh& mesh = *stages[stage];
    if (mesh.shape() != first.shape() || mesh.axes() != first.axes()) return std::nullopt;
    for (int i = 0; i < mesh.size(); ++i) {
      const Coordinate coordinate = mesh.coordinate_at(i);
      const Rank rank = mesh.ranks()[i];
      grid.ranks.push_back(rank);
      std::vector<int>& at = grid.coordinates[rank];
      if (!at.empty()) return std::nullopt;
      if (stages.size() > 1) at.push_back(static_cast<int>(stage));
      for (int axis = 0; axis < mesh.axis_count(); ++axis)
        at.push_back(static_cast<int>(coordinate[axis]));
    }
  }
  return grid;
}

/// Bytes and messages of one send of a pattern.
using Send = std::tuple<int64_t, int64_t>;

/// The traffic of one axis, by the shift of the coordinate.
struct AxisSends {
  std::map<int, std::vector<size_t>> by_shift;  // indices of the traffic
  std::map<int, std::set<Send>> kinds;
};

int line_pairs(int size, int shift) {
  return std::max(0, size - std::abs(shift));
}

/// The pattern that the sends of an axis are; nullopt for any other.
std::optional<GridAxis> pattern_of(const Grid& grid, size_t axis, const AxisSends& sends) {
  const int size = grid.sizes[axis];
  const int lines = static_cast<int>(grid.ranks.size()) / size;
  std::set<Send> kinds;
  std::set<int> shifts;
  for (const auto& [shift, list] : sends.by_shift) {
    if (std::ssize(list) != int64_t{lines} * line_pairs(size, shift)) return std::nullopt;
    shifts.insert(shift);
    kinds.insert(sends.kinds.at(shift).begin(), sends.kinds.at(shift).end());
  }
  if (kinds.size() != 1) return std::nullopt;
  GridAxis made{.name = grid.axes[axis], .size = size, .pattern = AxisPattern::kRing};
  if (std::ssize(shifts) == 2 * (size - 1))
    made.pattern = AxisPattern::kAllPairs;
  else if (shifts == std::set<int>{-1, 1})
    made.pattern = AxisPattern::kChain;
  else if (size <= 2 || shifts != std::set<int>{1, 1 - size})
    return std::nullopt;
  made.bytes = Bytes(std::get<0>(*kinds.begin()));
  made.messages = static_cast<double>(std::get<1>(*kinds.begin()));
  return made;
}

/// The only axis on which two ranks differ; nullopt when there are several.
std::optional<size_t> axis_between(const Grid& grid, Rank a, Rank b) {
  const std::vector<int>& from = grid.coordinates.at(a);
  const std::vector<int>& to = grid.coordinates.at(b);
  std::optional<size_t> found;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == to[axis]) continue;
    if (found) return std::nullopt;
    found = axis;
  }
  return found;
}

}  // namespace

MappingInput mapping_input(const TaskGraph& graph, const StepPrediction& exposed) {
  MappingInput input;
  for (const RankMemoryNeed& need : exposed.memory)
    input.needs.push_back({.memory = need.allocated()});
  const std::map<std::string, double> weights = weights_of(exposed);
  const auto weight = [&](const std::string& axes) {
    const auto found = weights.find(axes);
    return found == weights.end() ? 1.0 : found->second;
  };
  const std::vector<PairTraffic> traffic = rank_traffic(graph);
  const std::optional<Grid> grid = grid_of(graph);
  std::vector<bool> in_grid(traffic.size(), false);
  if (grid) {
    // By axis of the grid and axes of the exchanges, which have different weights.
    std::map<std::pair<size_t, std::string>, AxisSends> sends;
    for (size_t i = 0; i < traffic.size(); ++i) {
      const std::optional<size_t> axis = axis_between(*grid, traffic[i].from, traffic[i].to);
      if (!axis) continue;
      AxisSends& list = sends[{*axis, traffic[i].axes}];
      const int shift =
          grid->coordinates.at(traffic[i].to)[*axis] - grid->coordinates.at(traffic[i].from)[*axis];
      list.by_shift[shift].push_back(i);
      list.kinds[shift].insert({traffic[i].bytes.value(), traffic[i].messages});
    }
    RankGrid made{.axes = {}, .ranks = grid->ranks};
    for (size_t axis = 0; axis < grid->axes.size(); ++axis)
      made.axes.push_back({.name = grid->axes[axis], .size = grid->sizes[axis]});
    for (const auto& [key, list] : sends) {
      GridAxis& axis = made.axes[key.first];
      std::optional<GridAxis> pattern = pattern_of(*grid, key.first, list);
      if (!pattern || axis.bytes > Bytes(0)) continue;
      pattern->weight = weight(key.second);
      axis = *pattern;
      for (const auto& [shift, indices] : list.by_shift)
        for (size_t i : indices) in_grid[i] = true;
    }
    const bool has_bytes = std::any_of(made.axes.begin(), made.axes.end(),
                                       [](const GridAxis& axis) { return axis.bytes > Bytes(0); });
    if (has_bytes) input.grid = std::move(made);
  }
  for (size_t i = 0; i < traffic.size(); ++i)
    if (!in_grid[i])
      input.traffic.push_back({traffic[i].from, traffic[i].to, traffic[i].bytes,
                               static_cast<double>(traffic[i].messages), weight(traffic[i].axes)});
  return input;
}

}  // namespace tessera
