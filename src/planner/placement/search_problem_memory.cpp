// What the strategies of a problem hold, and when.
#include <algorithm>

#include "compiler/lower/step_peak.h"
#include "planner/placement/search_problem.h"

namespace tessera {
namespace {

/// Do gradients make more than a bucket?
bool fill_a_bucket(const Graph& graph, Bytes bucket) {
  return parameter_bytes(graph) > bucket;
}

/// What a rank holds of a value, by placement.
std::vector<int64_t> bytes_of(const ReshardPrices& prices, ReshardPrices::TypeIndex type,
                              const std::vector<ReshardPrices::PlacementIndex>& placements) {
  std::vector<int64_t> bytes;
  for (ReshardPrices::PlacementIndex placement : placements)
    bytes.push_back(align_up(prices.local_bytes(type, placement).value()));
  return bytes;
}

/// The same of values that are held in one placement or in two.
std::vector<int64_t> bytes_of_both(
    const ReshardPrices& prices, ReshardPrices::TypeIndex type,
    const std::vector<std::vector<ReshardPrices::PlacementIndex>>& placements) {
  std::vector<int64_t> bytes = bytes_of(prices, type, placements[0]);
  const std::vector<int64_t> second = bytes_of(prices, type, placements[1]);
  for (size_t s = 0; s < bytes.size(); ++s)
    if (placements[1][s] != placements[0][s]) bytes[s] += second[s];
  return bytes;
}

}  // namespace

void SearchProblem::hold(int node, const std::vector<Lifetime>& lifetimes,
                         const std::vector<int64_t>& bytes) {
  if (std::ranges::all_of(bytes, [](int64_t count) { return count == 0; })) return;
  for (const auto& [span, count] : moments_.held(lifetimes)) {
    std::vector<int64_t>& usage = nodes_[node].usage[span];
    usage.resize(bytes.size(), 0);
    for (size_t s = 0; s < bytes.size(); ++s) usage[s] += count * bytes[s];
  }
}

/// A copy of a pass is held in each pass. Copies of a step are usages of the edge from the
/// canonical placement.
void SearchProblem::hold_variable(const Variable& variable) {
  const int first = variable.value.index;
  const std::vector<int>& members = moments_.members(variable.value);
  std::vector<int64_t> bytes =
      bytes_of(prices_, types_[first], nodes_[canonical_node_[first]].operand[0]);
  for (int64_t& count : bytes) count *= std::ssize(members);
  nodes_[canonical_node_[first]].usage[{moments_.all().begin, moments_.all().end}] = bytes;
  if (copy_node_[first] < 0 || nodes_[copy_node_[first]].life.empty()) return;
  const Node& copy = nodes_[copy_node_[first]];
  bytes = bytes_of_both(prices_, types_[first], copy.operand);
  for (size_t s = 0; s < bytes.size(); ++s)
    if (copy.life[s] == ReplicaLifetime::kStep) bytes[s] = 0;
  std::vector<Lifetime> passes;
  for (int member : members)
    for (Role role : {Role::kForward, Role::kBackward, Role::kOptimizer})
      passes.push_back(moments_.lifetime(ValueId{member}, role));
  hold(copy_node_[first], passes, bytes);
  std::vector<Lifetime> steps;
  for (int member : members) steps.push_back(moments_.lifetime(ValueId{member}));
  nodes_[copy_node_[first]].kept = moments_.common(steps);
}

/// What an op makes, or an input: until its first reader where it is made, then where readers find
/// it. What only the optimizer reads goes there when a bucket of it is full.
void SearchProblem::hold_made(ValueId value) {
  const Source source = source_of(value);
  const int copy = copy_node_[value.index];
  const bool moves_at_once =
      copy >= 0 && nodes_[copy].is_deferred && fill_a_bucket(graph_, options_.bucket);
  std::vector<Lifetime> made, copied;
  for (int member : moments_.members(value)) {
    const Lifetime all = moments_.lifetime(ValueId{member});
    if (copy < 0) {
      made.push_back(all);
      continue;
    }
    const int moved = moves_at_once ? all.first + 1 : moments_.first_reader(ValueId{member});
    made.push_back({all.first, std::min(moved - 1, all.last)});
    copied.push_back({moved, all.last});
  }
  const TypeIndex type = types_[value.index];
  hold(source.node, made, bytes_of(prices_, type, nodes_[source.node].operand[source.slot]));
  if (copy >= 0) hold(copy, copied, bytes_of_both(prices_, type, nodes_[copy].operand));
}

/// The next value of a variable is written over it.
void SearchProblem::hold_memory() {
  std::vector<bool> is_variable(graph_.values().size(), false);
  for (const Variable& variable : graph_.variables()) {
    is_variable[variable.value.index] = true;
    if (variable.next) is_variable[variable.next->index] = true;
    if (shared_decisions_.is_first(variable.value)) hold_variable(variable);
  }
  for (int i = 0; i < std::ssize(graph_.values()); ++i)
    if (shared_decisions_.is_first(ValueId{i}) && !is_variable[i]) hold_made(ValueId{i});
}

/// A node has one span; further ones are those of edges of the node with itself.
void SearchProblem::add_other_usages() {
  for (int i = 0; i < std::ssize(nodes_); ++i) {
    const size_t count = nodes_[i].seconds.size();
    for (const auto& [span, usage] : nodes_[i].usage) {
      if (span == nodes_[i].usage.begin()->first) continue;
      std::vector<solver::Usage> diagonal(count * count, 0);
      for (size_t s = 0; s < count; ++s) diagonal[s * count + s] = usage[s];
      problem_.add_edge(i, i, std::vector<solver::Cost>(count * count, 0),
                        {span.first, span.second}, diagonal);
    }
  }
}

Bytes SearchProblem::peak(const solver::Assignment& assignment) const {
  StepPeakOptions how{.reshard = {strategies_->cost().links, options_.all_reduce}};
  if (options_.combines) how.bucket = options_.bucket;
  return step_peak(graph_, placements(assignment), how);
}

}  // namespace tessera
