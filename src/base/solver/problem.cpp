#include "base/solver/problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tessera::solver {
namespace {

uint64_t hash_of(std::span<const int64_t> numbers) {
  uint64_t hash = 0x9e3779b97f4a7c15ULL ^ numbers.size();
  for (const int64_t number : numbers) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

void check_not_negative(const std::string& what, std::span<const int64_t> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] < 0)
      refuse_data(fmt::format("{}: number {} is {}", what, i, numbers[i]),
                  "costs and usages are at least 0",
                  "add a constant to all costs of the node or edge");
}

struct Step {
  Moment moment;
  Usage change;
};

}  // namespace

std::string to_text(Wide number) {
  if (number < 0) return "-" + to_text(-number);
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(number % 10));
    number /= 10;
  } while (number > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

uint32_t Problem::intern(std::span<const int64_t> numbers) {
  const auto [place, is_new] =
      rows_.try_emplace(hash_of(numbers), static_cast<uint32_t>(starts_.size() - 1));
  if (!is_new && std::ranges::equal(row(place->second), numbers)) return place->second;
  pool_.insert(pool_.end(), numbers.begin(), numbers.end());
  starts_.push_back(pool_.size());
  return static_cast<uint32_t>(starts_.size() - 2);
}

int32_t Problem::add_node(Interval interval, std::span<const Cost> costs,
                          std::span<const Usage> usages) {
  const std::string name = fmt::format("node {}", nodes_.size());
  if (costs.empty())
    refuse_data(name + " has no strategy", "every node takes one of its strategies",
                "give it at least one cost");
  if (costs.size() != usages.size())
    refuse_data(fmt::format("{} has {} costs and {} usages", name, costs.size(), usages.size()),
                "each strategy has one of each", "give as many usages as costs");
  check_not_negative(name, costs);
  check_not_negative(name, usages);
  nodes_.push_back({interval, count_of(costs), intern(costs), 0});
  nodes_.back().usages = intern(usages);
  return nodes() - 1;
}

int32_t Problem::add_edge(int32_t a, int32_t b, std::span<const Cost> costs, Interval interval,
                          std::span<const Usage> usages) {
  const std::string name = fmt::format("edge {}", edges_.size());
  for (const int32_t end : {a, b})
    if (end < 0 || end >= nodes())
      refuse_data(fmt::format("{} names node {}", name, end),
                  fmt::format("there are {} nodes", nodes()), "name nodes by their number, from 0");
  const size_t pairs = int64_t{strategies(a)} * strategies(b);
  if (costs.size() != pairs)
    refuse_data(fmt::format("{} has {} costs", name, costs.size()),
                fmt::format("its nodes {} and {} have {} and {} strategies: {} pairs", a, b,
                            strategies(a), strategies(b), pairs),
                "give one cost a pair, the strategies of the second node varying fastest");
  if (!usages.empty() && usages.size() != pairs)
    refuse_data(fmt::format("{} has {} usages", name, usages.size()),
                fmt::format("there are {} pairs of strategies", pairs),
                "give one usage a pair, or none");
  check_not_negative(name, costs);
  check_not_negative(name, usages);
  Edge edge{a, b, intern(costs), Edge::kNothing, interval};
  if (!usages.empty()) edge.usages = intern(usages);
  edges_.push_back(edge);
  return edges() - 1;
}

Evaluation evaluate(const Problem& problem, const Assignment& assignment) {
  ensure(count_of(assignment) == problem.nodes(), "an assignment has one strategy a node");
  Evaluation result;
  std::vector<Step> steps;
  const auto take = [&result](Cost cost) {
    result.cost += cost;
    result.forbidden |= cost >= kForbidden;
  };
  const auto hold = [&steps](Interval interval, Usage usage) {
    if (interval.is_empty() || usage == 0) return;
    steps.push_back({interval.begin, usage});
    steps.push_back({interval.end, -usage});
  };
  for (int32_t i = 0; i < problem.nodes(); ++i) {
    const Problem::Node& node = problem.node(i);
    ensure(assignment[i] >= 0 && assignment[i] < node.strategies,
           "an assignment names strategies that there are");
    take(problem.costs(node)[assignment[i]]);
    hold(node.interval, problem.usages(node)[assignment[i]]);
  }
  for (int32_t e = 0; e < problem.edges(); ++e) {
    const Problem::Edge& edge = problem.edge(e);
    const int64_t pair =
        int64_t{assignment[edge.a]} * problem.strategies(edge.b) + assignment[edge.b];
    take(problem.costs(edge)[pair]);
    if (edge.usages != Problem::Edge::kNothing) hold(edge.interval, problem.usages(edge)[pair]);
  }
  std::ranges::sort(steps, {}, &Step::moment);
  Wide held = 0;
  for (size_t i = 0; i < steps.size();) {
    const Moment now = steps[i].moment;
    for (; i < steps.size() && steps[i].moment == now; ++i) held += steps[i].change;
    if (held <= result.peak) continue;
    result.peak = held;
    result.peak_moment = now;
  }
  result.within_limit = !problem.usage_limit() || result.peak <= *problem.usage_limit();
  return result;
}

}  // namespace tessera::solver
