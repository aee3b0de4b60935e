// How close mappings come to their lower bounds, and how long they take.
//
//     mapping_bench
//
// A line for each case: ranks, edges, the cost over the bound, the cost over that of the same ranks
// as a grid (for the cases whose traffic is given without it), the method, seconds of processor
// time.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

#include "cluster/mapping/mapping.h"
#include "cluster/mapping/testing/trees.h"

namespace {

using namespace tessera;
using namespace tessera::mapping_testing;

GridAxis axis(const std::string& name, int size, AxisPattern pattern, int64_t megabytes) {
  return {name, size, pattern, Bytes(megabytes * 1'000'000), 10, 1};
}

double report(const std::string& name, const MappingInput& input, const Cluster& cluster,
              double known) {
  const std::clock_t begin = std::clock();
  const Mapping mapping = map_ranks(input, cluster);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const double cost = mapping.cost.cost.value();
  fmt::print("{:<34} {:>6} ranks {:>6} devices  cost/bound {:.4f}{}  {:<9} {:<7}{} {:.2f} s\n",
             name, input.needs.size(), cluster.device_count(), 1 + mapping.gap(),
             mapping.optimal ? " proved" : "       ",
             known > 0 ? fmt::format("/grid {:.3f}", cost / known) : "", to_text(mapping.method),
             mapping.exchanged ? "+exchanges" : "          ", seconds);
  return cost;
}

/// The same traffic without the grid, ranks in random order.
MappingInput without_grid(const MappingInput& input, uint64_t seed) {
  Dice dice(seed);
  MappingInput made;
  made.needs = input.needs;
  std::vector<Rank> name(made.needs.size());
  std::iota(name.begin(), name.end(), 0);
  for (size_t i = name.size(); i > 1; --i)
    std::swap(name[i - 1], name[dice.below(static_cast<int>(i))]);
  for (size_t a = 0; a < input.grid->axes.size(); ++a)
    for (RankTraffic sent : axis_traffic(*input.grid, static_cast<int>(a))) {
      sent.from = name[sent.from];
      sent.to = name[sent.to];
      made.traffic.push_back(sent);
    }
  return made;
}

struct Case {
  std::string name;
  std::vector<int> fans;
  std::vector<GridAxis> axes;
};

std::vector<Case> cases() {
  const auto ring = AxisPattern::kRing;
  const auto chain = AxisPattern::kChain;
  const auto all = AxisPattern::kAllPairs;
  return {
      {"dp64 pp8 tp8",
       {8, 512},
       {axis("dp", 64, ring, 400), axis("pp", 8, chain, 100), axis("tp", 8, ring, 3000)}},
      {"dp64 pp8 tp8, racks",
       {8, 16, 32},
       {axis("dp", 64, ring, 400), axis("pp", 8, chain, 100), axis("tp", 8, ring, 3000)}},
      {"dp128 pp8 tp4, racks",
       {8, 16, 32},
       {axis("dp", 128, ring, 400), axis("pp", 8, chain, 100), axis("tp", 4, ring, 900)}},
      {"dp64 pp16 tp4, 4 levels",
       {8, 8, 8, 8},
       {axis("dp", 64, ring, 50), axis("pp", 16, chain, 100), axis("tp", 4, ring, 900)}},
      {"dp32 cp4 pp4 tp8, 4 levels",
       {8, 4, 16, 8},
       {axis("dp", 32, ring, 300), axis("cp", 4, ring, 600), axis("pp", 4, chain, 90),
        axis("tp", 8, ring, 3000)}},
      {"dp256 ep16 (all to all)",
       {4, 16, 64},
       {axis("dp", 256, ring, 300), axis("ep", 16, all, 20)}},
      {"dp16 ep64 pp4, racks",
       {8, 16, 32},
       {axis("dp", 16, ring, 300), axis("ep", 64, all, 20), axis("pp", 4, chain, 100)}},
      {"dp512 tp8", {8, 8, 8, 8}, {axis("dp", 512, ring, 1000), axis("tp", 8, ring, 3000)}},
      {"dp 4096", {8, 8, 8, 8}, {axis("dp", 4096, ring, 1000)}},
      {"pp64 dp64", {8, 512}, {axis("pp", 64, chain, 100), axis("dp", 64, ring, 100)}},
      {"pp6 dp16 tp8 (6 x 8 x 16)",
       {8, 6, 16},
       {axis("dp", 16, ring, 300), axis("pp", 6, chain, 100), axis("tp", 8, ring, 3000)}},
      {"dp128 pp16 tp8, 16384",
       {8, 32, 64},
       {axis("dp", 128, ring, 300), axis("pp", 16, chain, 100), axis("tp", 8, ring, 3000)}},
  };
}

/// Random sparse traffic, and traffic inside of random groups that fill machines and racks.
void irregular(const Cluster& cluster, int degree, bool in_groups) {
  Dice dice(11);
  const int ranks = cluster.device_count();
  std::vector<Rank> name(ranks);
  std::iota(name.begin(), name.end(), 0);
  for (size_t i = name.size(); i > 1; --i)
    std::swap(name[i - 1], name[dice.below(static_cast<int>(i))]);
  MappingInput input;
  input.needs.resize(ranks);
  double planted = 0;
  std::vector<DeviceId> devices(ranks);
  for (int i = 0; i < ranks; ++i) devices[name[i]] = i;
  for (int i = 0; i < ranks; ++i)
    for (int e = 0; e < degree; ++e) {
      const int range = !in_groups ? ranks : e < degree / 2 ? 8 : e < degree * 3 / 4 ? 64 : ranks;
      const int other = i / range * range + dice.below(range);
      if (other != i)
        input.traffic.push_back(
            {name[i], name[other], Bytes(1'000'000 + dice.below(9'000'000)), 1, 1});
    }
  if (in_groups) planted = mapping_cost(input, cluster, devices).cost.value();
  report(in_groups ? fmt::format("random groups, degree {}", 2 * degree)
                   : fmt::format("random graph, degree {}", 2 * degree),
         input, cluster, planted);
}

/// A tree of 16 to 4,096 devices in 2 to 4 levels; the numbers of ports need not be powers of two.
std::vector<int> random_tree(Dice& dice) {
  constexpr int kMaxDevices = 4096, kMinDevices = 16;
  for (;;) {
    std::vector<int> fans;
    int devices = 1;
    for (int levels = 2 + dice.below(3); levels > 0; --levels) {
      fans.push_back(2 + dice.below(dice.below(2) == 0 ? 15 : 63));
      devices *= fans.back();
    }
    if (devices >= kMinDevices && devices <= kMaxDevices) return fans;
  }
}

/// A divisor of a number, at random.
int random_divisor(int number, Dice& dice) {
  std::vector<int> divisors;
  for (int d = 1; d <= number; ++d)
    if (number % d == 0) divisors.push_back(d);
  return divisors[dice.below(static_cast<int>(divisors.size()))];
}

/// 2 to 4 axes at random: sizes, patterns, and traffic of a rank on each axis from 1 to 100 MB.
///   are_doubled  sizes are the ranks, halved some times; else any divisors
std::vector<GridAxis> random_axes(int ranks, bool are_doubled, Dice& dice) {
  std::vector<GridAxis> axes;
  int left = ranks;
  for (int a = 2 + dice.below(3); a > 0 && left > 1; --a) {
    int size = left;
    if (are_doubled) {
      for (int halves = dice.below(8); a > 1 && size > 2 && halves > 0; --halves) size /= 2;
    } else if (a > 1) {
      size = random_divisor(left, dice);
    }
    // All pairs of a long axis are too many messages for any step.
    const auto pattern = static_cast<AxisPattern>(dice.below(size <= 64 ? 3 : 2));
    const double bytes = 1e6 * std::pow(100, dice.uniform());
    const int peers = pattern == AxisPattern::kAllPairs ? size - 1 : 1;
    if (size > 1)
      axes.push_back(
          {std::to_string(a), size, pattern, Bytes(static_cast<int64_t>(bytes / peers))});
    left /= size;
  }
  return axes;
}

/// "16 ring 3.0 MB, 8 chain 1.0 MB"
std::string text_of(const std::vector<GridAxis>& axes) {
  std::string text;
  for (const GridAxis& one : axes)
    text += fmt::format("{}{} {} {:.1f} MB", text.empty() ? "" : ", ", one.size,
                        to_text(one.pattern), static_cast<double>(one.bytes.value()) / 1e6);
  return text;
}

struct Sweep {
  std::string name;
  int count = 0;
  uint64_t seed = 0;
  bool has_any_ports = false;  // any numbers of ports and any sizes; else powers of two
  bool is_renamed = false;     // traffic pair by pair, ranks in random order
};

/// Maps random grids, and prints those whose gap is more than 5%.
void random_grids(const Sweep& sweep) {
  const std::vector<std::vector<int>> trees = {
      {8, 64}, {8, 8, 8}, {8, 16, 16}, {4, 2, 8, 8}, {8, 4, 8, 16}, {16, 16, 16}, {2, 4, 16, 32}};
  std::vector<double> gaps;
  double slowest = 0;
  for (int i = 0; i < sweep.count; ++i) {
    Dice dice(sweep.seed + static_cast<uint64_t>(i));
    const std::vector<int> fans =
        sweep.has_any_ports ? random_tree(dice) : trees[dice.below(static_cast<int>(trees.size()))];
    const Cluster cluster(tree_of(fans, 300, 1.5 + 6 * dice.uniform()));
    const std::vector<GridAxis> axes =
        random_axes(cluster.device_count(), !sweep.has_any_ports, dice);
    const MappingInput grid = grid_input(axes);
    const MappingInput input = sweep.is_renamed ? without_grid(grid, i) : grid;
    const std::clock_t begin = std::clock();
    const Mapping mapping = map_ranks(input, cluster);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    slowest = std::max(slowest, seconds);
    gaps.push_back(mapping.gap());
    if (gaps.back() <= 0.05) continue;
    fmt::print("  {} on {}: {:.1f}%, {}, {:.2f} s\n", text_of(axes), fmt::join(fans, " x "),
               100 * gaps.back(), to_text(mapping.method), seconds);
  }
  std::sort(gaps.begin(), gaps.end());
  const auto within = [&](double largest) {
    return 100.0 *
           static_cast<double>(std::upper_bound(gaps.begin(), gaps.end(), largest) - gaps.begin()) /
           sweep.count;
  };
  fmt::print(
      "{} {}: {:.0f}% proved, {:.1f}% within 5% of the bound, {:.0f}% within 15%, the largest gap "
      "{:.1f}%; the slowest {:.2f} s of processor time\n",
      sweep.count, sweep.name, within(0), within(0.05), within(0.15), 100 * gaps.back(), slowest);
}

}  // namespace

int main() {
  for (const Case& one : cases()) {
    const Cluster cluster(tree_of(one.fans));
    const MappingInput input = grid_input(one.axes);
    const double cost = report(one.name, input, cluster, 0);
    if (input.needs.size() <= 4096)
      report("  traffic only, renamed", without_grid(input, 5), cluster, cost);
  }
  const Cluster cluster(tree_of({8, 8, 64}));
  irregular(cluster, 4, false);
  irregular(cluster, 8, true);
  irregular(cluster, 16, true);
  random_grids({.name = "random grids", .count = 60, .seed = 100});
  random_grids(
      {.name = "of them, traffic only, renamed", .count = 20, .seed = 100, .is_renamed = true});
  random_grids(
      {.name = "random grids on any ports", .count = 200, .seed = 9000, .has_any_ports = true});
}
