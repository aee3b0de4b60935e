#include "compiler/lower/internal/task_groups.h"

#include <algorithm>
#include <map>

#include "base/text/name_pattern.h"
#include "ir/graph/repeated_layers.h"

namespace tessera {
namespace {

/// By op: the number of its layer, of all groups of layers; 0 when it is in none.
std::vector<int> layer_numbers(const Graph& graph) {
  const RepeatedLayers layers = find_repeated_layers(graph);
  std::map<std::pair<LayerGroupIndex, LayerIndex>, int> numbers;
  std::vector<int> list;
  for (const LayerPlace& place : layers.of_op) {
    const int next = static_cast<int>(numbers.size()) + 1;
    list.push_back(
        place.is_none() ? 0 : numbers.try_emplace({place.group, place.layer}, next).first->second);
  }
  return list;
}

/// By op: the position of the first pattern that it matches.
std::vector<int> pattern_numbers(const Graph& graph, const std::vector<std::string>& patterns) {
  const std::vector<NamePattern> compared(patterns.begin(), patterns.end());
  std::vector<int> list;
  for (const Op& op : graph.ops()) {
    const auto found =
        std::find_if(compared.begin(), compared.end(),
                     [&](const NamePattern& pattern) { return pattern.matches(op.name); });
    list.push_back(static_cast<int>(found - compared.begin()));
  }
  return list;
}

}  // namespace

TaskGroups::TaskGroups(const Graph& graph, const TaskGranularity& tasks)
    : are_single_(tasks.kind == TaskGranularity::Kind::kOp) {
  std::vector<int> numbers;
  if (tasks.kind == TaskGranularity::Kind::kLayer) numbers = layer_numbers(graph);
  if (tasks.kind == TaskGranularity::Kind::kPatterns)
    numbers = pattern_numbers(graph, tasks.patterns);
  for (size_t i = 0; i < numbers.size(); ++i) group_of_op_[graph.ops()[i].name] = numbers[i];
}

std::optional<int> TaskGroups::at(const std::string& op) const {
  const auto found = group_of_op_.find(op);
  if (found == group_of_op_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tessera
