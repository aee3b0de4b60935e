#include "simulator/step/internal/rank_variables.h"

#include <unordered_map>

#include "task_graph/tasks/register_hash.h"

namespace tessera {
namespace {

bool are_alike(const Register& a, const Register& b) {
  return a.mesh == b.mesh && *a.type == *b.type && a.attr == b.attr && a.chunk == b.chunk;
}

}  // namespace

RankVariables::RankVariables(const TaskGraph& graph) {
  std::unordered_multimap<size_t, size_t> by_hash;
  for (const TaskVariable& variable : graph.variables) {
    const Register reg = graph.registers[variable.value];
    Hasher hasher;
    add_placed_type(hasher, reg);
    const auto [begin, end] = by_hash.equal_range(hasher.value());
    auto known = begin;
    while (known != end && !are_alike(classes_[known->second].reg, reg)) ++known;
    if (known != end) {
      ++classes_[known->second].count;
    } else {
      by_hash.emplace(hasher.value(), classes_.size());
      classes_.push_back({reg, device_of(graph, reg.mesh) == DeviceKind::kFile, 1});
    }
  }
}

Bytes RankVariables::bytes(Rank rank, bool in_file) const {
  Bytes sum{0};
  for (const Class& each : classes_) {
    if (each.is_in_file != in_file) continue;
    if (const auto coordinate = each.reg.attr.mesh->coordinate_of(rank))
      sum += Bytes(each.count * byte_size(local_type(each.reg, *coordinate)).value());
  }
  return sum;
}

}  // namespace tessera
