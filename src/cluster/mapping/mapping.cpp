#include "cluster/mapping/mapping.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/mapping/internal/bounds.h"
#include "cluster/mapping/internal/methods.h"
#include "cluster/mapping/internal/needs.h"
#include "cluster/mapping/internal/problem.h"
#include "cluster/mapping/internal/recover_grid.h"

namespace tessera {
namespace {

/// Up to n ranks are tried exhaustively, and so many steps are made at most.
constexpr int kMaxExactRanks = 12;
constexpr int kSurelyExactRanks = 8;
constexpr int64_t kMaxExactSteps = 300'000;
/// Edges that exchanges price for one mapping.
constexpr int64_t kMaxPriced = 10'000'000;
/// Edges that the search over orders prices.
constexpr int64_t kMaxPricedOrders = 60'000'000;
/// Edges that annealing prices.
constexpr int64_t kMaxPricedAnnealing = 60'000'000;
/// The rounding of sums: costs that differ by less are equal.
constexpr double kCostRounding = 1e-9;

void check_grid(const MappingInput& input) {
  const auto ranks = std::ssize(input.needs);
  for (const RankTraffic& sent : input.traffic)
    ensure(std::min(sent.from, sent.to) >= 0 && std::max(sent.from, sent.to) < ranks,
           "traffic is between ranks");
  if (!input.grid) return;
  ensure(input.grid->size() == ranks, "the grid has all ranks");
  if (input.grid->ranks.empty()) return;
  std::vector<Rank> sorted = input.grid->ranks, all(ranks);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  ensure(sorted == all, "the grid has each rank once");
}

/// A problem in the canonical order of ranks.
struct Prepared {
  MappingProblem problem;
  std::vector<Rank> order;  // the rank of the program, by that of the problem
  std::vector<std::vector<int>> quota;
  /// The grid whose traffic is all traffic, with the ranks of the problem; empty when there is
  /// none.
  std::optional<RankGrid> grid = std::nullopt;
};

/// The grid that is given, or the one that the traffic has.
std::optional<RankGrid> grid_of(const MappingInput& input, const RankGraph& graph,
                                const std::vector<Rank>& order) {
  if (!input.grid) {
    const bool is_small = graph.size() <= kSurelyExactRanks;
    return is_small ? std::nullopt : recover_grid(graph);
  }
  if (!input.traffic.empty()) return std::nullopt;
  std::vector<Rank> name(order.size());
  for (size_t i = 0; i < name.size(); ++i) name[order[i]] = static_cast<Rank>(i);
  RankGrid grid = *input.grid;
  if (grid.ranks.empty()) {
    grid.ranks = name;
  } else {
    for (Rank& rank : grid.ranks) rank = name[rank];
  }
  return grid;
}

/// The tree of the devices that some rank can use.
DeviceTree usable_tree(const Cluster& cluster, const std::vector<NeedClass>& needs) {
  DeviceTree tree(cluster);
  std::vector<bool> kept(tree.size(), false);
  for (Place p = 0; p < tree.size(); ++p)
    for (const NeedClass& made : needs) kept[p] = kept[p] || made.fits[tree.type(p)];
  if (std::find(kept.begin(), kept.end(), false) == kept.end()) return tree;
  return tree.keep(kept);
}

Prepared prepare(const MappingInput& input, const Cluster& cluster,
                 const std::vector<RankTraffic>& traffic) {
  const std::vector<NeedClass> classes = checked_needs(input, cluster);
  // Needs that the same types meet are one.
  std::map<std::vector<bool>, NeedClass> merged;
  for (const NeedClass& made : classes) {
    NeedClass& joint = merged[made.fits];
    joint.fits = made.fits;
    joint.ranks.insert(joint.ranks.end(), made.ranks.begin(), made.ranks.end());
  }
  std::vector<NeedClass> needs;
  for (auto& [fits, made] : merged) needs.push_back(std::move(made));
  const int ranks = static_cast<int>(input.needs.size());
  std::vector<int> need(ranks);
  for (size_t n = 0; n < needs.size(); ++n)
    for (Rank rank : needs[n].ranks) need[rank] = static_cast<int>(n);
  const RankGraph graph(ranks, traffic);
  std::vector<Rank> order = canonical_order(graph, need);
  Prepared made{{graph.renamed(order), usable_tree(cluster, needs), {}, {}}, order, {}};
  for (Rank rank : order) made.problem.need.push_back(need[rank]);
  for (const NeedClass& n : needs) made.problem.fits.push_back(n.fits);
  std::vector<int> devices(needs.empty() ? 0 : needs.front().fits.size(), 0);
  for (Place p = 0; p < made.problem.tree.size(); ++p) ++devices[made.problem.tree.type(p)];
  made.quota = share_types(needs, devices);
  made.grid = grid_of(input, made.problem.graph, order);
  return made;
}

/// A mapping on the way: what found it, and its cost.
struct Candidate {
  Places places;
  MappingMethod method = MappingMethod::kGreedy;
  bool exchanged = false;
  double cost = 0;
};

double lower_bound(const MappingInput& input, const Prepared& prepared) {
  const double bound = edges_bound(prepared.problem);
  if (prepared.grid)
    return std::max(bound, grid_bound(*prepared.grid, levels_of(prepared.problem.tree)));
  if (!input.grid) return bound;
  MappingProblem beside = prepared.problem;
  beside.graph =
      RankGraph(static_cast<int>(input.needs.size()), input.traffic).renamed(prepared.order);
  return std::max(bound,
                  grid_bound(*input.grid, levels_of(prepared.problem.tree)) + edges_bound(beside));
}

/// A bound that takes longer, from a mapping to which it should come close.
double improved_bound(const Prepared& prepared, const Places& places) {
  if (!prepared.grid) return 0;
  GridBound bound(*prepared.grid, levels_of(prepared.problem.tree));
  std::vector<Place> by_position;
  for (const Rank rank : prepared.grid->ranks) by_position.push_back(places[rank]);
  bound.improve(*prepared.grid, prepared.problem.tree, by_position);
  return bound.value();
}

/// What the methods find, up to the first mapping that costs no more than `bound`.
std::vector<Candidate> candidates(const Prepared& prepared, double bound) {
  const MappingProblem& problem = prepared.problem;
  std::vector<Candidate> found;
  const auto add = [&](Places places, MappingMethod method) {
    const double cost = places_cost(problem, places);
    found.push_back({std::move(places), method, false, cost});
    return cost <= bound * (1 + kCostRounding);
  };
  if (prepared.grid)
    if (auto places = map_boxes(problem, *prepared.grid, prepared.grid->ranks))
      if (add(std::move(*places), MappingMethod::kGrid)) return found;
  if (prepared.grid)
    if (auto places = map_orders(problem, *prepared.grid, prepared.grid->ranks, kMaxPricedOrders))
      if (add(std::move(*places), MappingMethod::kGrid)) return found;
  if (add(map_greedily(problem, prepared.quota), MappingMethod::kGreedy)) return found;
  add(map_by_bisection(problem, found.back().places), MappingMethod::kBisection);
  return found;
}

std::vector<DeviceId> devices_of(const Prepared& prepared, const Places& places) {
  std::vector<DeviceId> devices(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    devices[prepared.order[i]] = prepared.problem.tree.device(places[i]);
  return devices;
}

void improve(const MappingProblem& problem, Candidate& candidate) {
  candidate.exchanged = exchange_groups(problem, candidate.places, kMaxPriced);
  candidate.cost = places_cost(problem, candidate.places);
}

/// The cheapest mapping; of several the one whose busiest channel is the least busy.
Candidate search(const MappingInput& input, const Cluster& cluster, const Prepared& prepared,
                 double bound) {
  std::vector<Candidate> found = candidates(prepared, bound);
  const auto is_optimal = [&](const Candidate& candidate) {
    return candidate.cost <= bound * (1 + kCostRounding);
  };
  double smallest = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : found) smallest = std::min(smallest, candidate.cost);
  constexpr double kHopeless = 1.3;  // exchanges do not make up for so much
  for (Candidate& candidate : found) {
    if (std::any_of(found.begin(), found.end(), is_optimal)) break;
    if (candidate.cost <= kHopeless * smallest) improve(prepared.problem, candidate);
    smallest = std::min(smallest, candidate.cost);
  }
  std::erase_if(found, [&](const Candidate& candidate) {
    return candidate.cost > smallest * (1 + kCostRounding);
  });
  size_t best = 0;
  double min_busy = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < found.size() && found.size() > 1; ++i) {
    const double busiest =
        mapping_cost(input, cluster, devices_of(prepared, found[i].places)).busiest.value();
    if (busiest >= min_busy) continue;
    min_busy = busiest;
    best = i;
  }
  return std::move(found[best]);
}

/// The exhaustive search, from what the other methods found.
bool prove(const MappingProblem& problem, Candidate& candidate) {
  const int ranks = problem.graph.size();
  if (ranks > kMaxExactRanks) return false;
  const int64_t steps =
      ranks <= kSurelyExactRanks ? std::numeric_limits<int64_t>::max() : kMaxExactSteps;
  std::optional<Places> places = map_exactly(problem, candidate.places, steps);
  if (!places) return false;
  candidate.places = std::move(*places);
  candidate.method = MappingMethod::kExact;
  candidate.exchanged = false;
  return true;
}

}  // namespace

std::string_view to_text(MappingMethod method) {
  switch (method) {
    case MappingMethod::kExact: return "exact";
    case MappingMethod::kGrid: return "grid";
    case MappingMethod::kGreedy: return "greedy";
    case MappingMethod::kBisection: return "bisection";
  }
  return "";
}

double Mapping::gap() const {
  if (optimal || cost.cost == bound) return 0;
  if (bound.value() == 0) return std::numeric_limits<double>::infinity();
  return cost.cost.value() / bound.value() - 1;
}

Mapping map_ranks(const MappingInput& input, const Cluster& cluster) {
  check_grid(input);
  Mapping mapping;
  mapping.optimal = true;
  if (input.needs.empty()) return mapping;
  const Prepared prepared = prepare(input, cluster, all_traffic(input));
  double bound = lower_bound(input, prepared);
  Candidate best = search(input, cluster, prepared, bound);
  if (best.cost > bound * (1 + kCostRounding))
    bound = std::max(bound, improved_bound(prepared, best.places));
  constexpr double kClose = 1.02;
  if (best.cost > kClose * bound && input.needs.size() > kMaxExactRanks &&
      anneal(prepared.problem, best.places, kMaxPricedAnnealing)) {
    best.exchanged = true;
    best.cost = places_cost(prepared.problem, best.places);
  }
  mapping.optimal = best.cost <= bound * (1 + kCostRounding) || prove(prepared.problem, best);
  mapping.devices = devices_of(prepared, best.places);
  mapping.method = best.method;
  mapping.exchanged = best.exchanged;
  mapping.cost = mapping_cost(input, cluster, mapping.devices);
  mapping.bound = mapping.optimal ? mapping.cost.cost : Seconds(bound);
  mapping.levels = level_traffic(input, cluster, mapping.devices);
  return mapping;
}

}  // namespace tessera
