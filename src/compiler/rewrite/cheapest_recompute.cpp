#include "compiler/rewrite/cheapest_recompute.h"

#include <algorithm>
#include <utility>

#include "compiler/rewrite/internal/recompute_pareto_front.h"

namespace tessera {
namespace {

using solver::Cost;
using solver::Usage;

/// The points that a group of layers keeps; others of nearly the same bytes are left out.
constexpr size_t kMaxPoints = 512;
/// The points of a front that groups of several layers choose from.
constexpr size_t kMaxChoices = 48;

/// Identical blocks, and the front of each.
struct Group {
  std::vector<int> blocks = {};
  std::vector<RecomputePoint> front = {};

  /// The points that are tried together, in order: all of them for one block.
  std::vector<int> choices() const {
    const size_t count = blocks.size() == 1 ? front.size() : std::min(front.size(), kMaxChoices);
    std::vector<int> list;
    for (size_t i = 0; i < count; ++i)
      list.push_back(static_cast<int>(count == 1 ? 0 : i * (front.size() - 1) / (count - 1)));
    return list;
  }
};

/// How many of the blocks of a group have which point: `first` of them point a, the rest point b.
struct Share {
  int a = 0, b = 0, first = 0;
};

/// A sum over the groups so far, and how it is made: of entry `before` of the list of the groups
/// before, and a share.
struct Sum {
  Usage bytes = 0;
  Cost cost = 0;
  Share share = {};
  int before = -1;
};

/// Leaves the sums that no other one is below; of many with nearly the same bytes the cheapest, and
/// always the one of the fewest bytes.
std::vector<Sum> thinned(std::vector<Sum> sums) {
  std::ranges::sort(sums, [](const Sum& a, const Sum& b) {
    return std::pair(a.bytes, a.cost) < std::pair(b.bytes, b.cost);
  });
  std::vector<Sum> front;
  for (const Sum& sum : sums)
    if (front.empty() || sum.cost < front.back().cost) front.push_back(sum);
  if (front.size() <= kMaxPoints) return front;
  const Usage smallest = front.front().bytes;
  const Usage width = (front.back().bytes - smallest) / static_cast<Usage>(kMaxPoints) + 1;
  std::vector<Sum> thin{front.front()};
  for (size_t i = 1; i < front.size(); ++i) {
    const bool is_last_of_its_width =
        i + 1 == front.size() ||
        (front[i].bytes - smallest) / width != (front[i + 1].bytes - smallest) / width;
    if (is_last_of_its_width) thin.push_back(front[i]);
  }
  return thin;
}

/// The sums that a group alone can have.
std::vector<Sum> sums_of(const Group& group) {
  const auto count = static_cast<int>(group.blocks.size());
  const std::vector<int> choices = group.choices();
  std::vector<Sum> sums;
  const auto add = [&](int a, int b, int first) {
    const RecomputePoint &of_a = group.front[a], &of_b = group.front[b];
    sums.push_back({first * of_a.bytes + (count - first) * of_b.bytes,
                    first * of_a.cost + (count - first) * of_b.cost,
                    {a, b, first}});
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    add(choices[i], choices[i], count);
    for (size_t j = i + 1; j < choices.size(); ++j)
      for (int first = 1; first < count; ++first) add(choices[i], choices[j], first);
  }
  return thinned(std::move(sums));
}

/// The choice of one device.
class DeviceChoice {
 public:
  DeviceChoice(const RecomputeBlocks& blocks, int device)
      : blocks_(blocks), bytes_(blocks.fixed[device]), chosen_(blocks.blocks.size(), 0) {
    for (int i = 0; i < std::ssize(blocks.blocks); ++i)
      if (blocks.blocks[i].device == device) add(i);
    for (const Group& group : groups_)
      bytes_ += static_cast<Usage>(group.blocks.size()) * needed_bytes(at(group.blocks.front()));
  }

  /// Makes it the cheapest one that keeps at most `limit`. false: there is a wide block, and it is
  /// not to be solved.
  bool fit(Usage limit, bool solves_wide) {
    if (bytes_ <= limit) return true;
    for (Group& group : groups_) {
      group.front = recompute_pareto_front(at(group.blocks.front()), solves_wide);
      if (group.front.empty()) return false;
      for (int block : group.blocks) chosen_[block] = static_cast<int>(group.front.size()) - 1;
    }
    choose_points(limit);
    while (bytes_ < limit && refine(limit)) {
    }
    return true;
  }

  Usage bytes() const { return bytes_; }
  Cost cost() const { return cost_; }
  /// Marks the ops that are computed again.
  void mark(std::vector<bool>& ops) const {
    for (const Group& group : groups_)
      for (int block : group.blocks) {
        if (group.front.empty()) continue;  // nothing is
        const std::vector<RecomputeBlock::Node>& nodes = at(block).nodes;
        for (size_t i = 0; i < nodes.size(); ++i)
          if (nodes[i].op.index >= 0 &&
              group.front[chosen_[block]].assignment[i] + 1 == std::ssize(nodes[i].costs))
            ops[nodes[i].op.index] = true;
      }
  }

 private:
  const RecomputeBlock& at(int block) const { return blocks_.blocks[block]; }

  /// What is kept when nothing is computed again.
  static Usage needed_bytes(const RecomputeBlock& block) {
    Usage bytes = 0;
    for (const RecomputeBlock::Node& node : block.nodes)
      if (node.costs.front() >= solver::kForbidden) bytes += node.usages[1];
    return bytes;
  }

  void add(int block) {
    for (Group& group : groups_)
      if (at(group.blocks.front()).is_identical(at(block))) return group.blocks.push_back(block);
    groups_.push_back({.blocks = {block}});
  }

  void choose(const Group& group, int block, int point) {
    const RecomputePoint &before = group.front[chosen_[block]], &now = group.front[point];
    bytes_ += now.bytes - before.bytes;
    cost_ += now.cost - before.cost;
    chosen_[block] = point;
  }

  /// The dynamic program over the groups.
  void choose_points(Usage limit) {
    Usage room = limit - bytes_;
    for (const Group& group : groups_)
      room += static_cast<Usage>(group.blocks.size()) * group.front.back().bytes;
    std::vector<std::vector<Sum>> sums{{Sum{}}};
    for (const Group& group : groups_) {
      std::vector<Sum> next;
      const std::vector<Sum> own = sums_of(group);
      for (int before = 0; before < std::ssize(sums.back()); ++before)
        for (const Sum& sum : own)
          next.push_back({sums.back()[before].bytes + sum.bytes,
                          sums.back()[before].cost + sum.cost, sum.share, before});
      sums.push_back(thinned(std::move(next)));
    }
    // Bytes ascend and costs descend; the first one keeps least.
    int best = 0;
    for (int i = 0; i < std::ssize(sums.back()); ++i)
      if (sums.back()[i].bytes <= room) best = i;
    for (int g = static_cast<int>(groups_.size()) - 1; g >= 0; --g) {
      const Sum& sum = sums[g + 1][best];
      const Group& group = groups_[g];
      for (int i = 0; i < std::ssize(group.blocks); ++i)
        choose(group, group.blocks[i], i < sum.share.first ? sum.share.a : sum.share.b);
      best = sum.before;
    }
  }

  /// Moves the one layer that gains most by it to another point that the bytes that are left allow.
  bool refine(Usage limit) {
    const Group* best = nullptr;
    int best_block = 0, best_point = 0;
    Cost gain = 0;
    for (const Group& group : groups_) {
      int before = -1;  // neighbours often have one point
      for (int block : group.blocks) {
        if (chosen_[block] == before) continue;
        before = chosen_[block];
        const RecomputePoint& now = group.front[before];
        const auto after = std::ranges::upper_bound(group.front, now.bytes + limit - bytes_, {},
                                                    &RecomputePoint::bytes);
        const auto point = static_cast<int>(after - group.front.begin()) - 1;
        if (now.cost - group.front[point].cost <= gain) continue;
        gain = now.cost - group.front[point].cost;
        best = &group;
        best_block = block;
        best_point = point;
      }
    }
    if (best) choose(*best, best_block, best_point);
    return best != nullptr;
  }

  const RecomputeBlocks& blocks_;
  std::vector<Group> groups_;
  Usage bytes_ = 0;
  Cost cost_ = 0;
  std::vector<int> chosen_;  // by block: index in the front of its group
};

}  // namespace

RecomputeChoice cheapest_recompute(const Graph& graph, const RecomputeTerms& terms) {
  const RecomputeBlocks blocks = recompute_blocks(graph, terms);
  RecomputeChoice choice;
  choice.ops.assign(graph.ops().size(), false);
  for (int device = 0; device < std::ssize(blocks.fixed); ++device) {
    DeviceChoice of_device(blocks, device);
    if (!of_device.fit(terms.limit.value(), terms.solves_wide)) {
      choice.is_made = false;
      return choice;
    }
    of_device.mark(choice.ops);
    choice.kept.push_back(Bytes(of_device.bytes()));
    choice.cost += Seconds(solver::to_double(of_device.cost()) * blocks.seconds_of_cost);
  }
  return choice;
}

}  // namespace tessera
