#include "planner/placement/internal/op_cluster_strategies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

using PlacementIndex = ReshardPrices::PlacementIndex;

DistAttr without_windows(DistAttr attr) {
  for (DimSharding& dim : attr.dims) dim.windows.clear();
  return attr;
}

class Composition {
 public:
  Composition(const std::vector<OpStrategies>& ops, const std::vector<OpClusterLink>& links,
              const std::vector<std::vector<bool>>& boundary, ReshardPrices& prices,
              const std::function<double(const Price&)>& seconds, int limit)
      : ops_(ops),
        links_(links),
        boundary_(boundary),
        prices_(prices),
        seconds_(seconds),
        limit_(limit),
        is_placed_(ops.size(), false) {}

  OpClusterStrategies run() {
    open_ = {{std::vector<int>(ops_.size(), -1)}};
    for (size_t count = 0; count < ops_.size(); ++count) {
      const int op = op_to_place();
      const NextOp placed{op, links_to_placed(op), bytes_by_strategy(op)};
      std::vector<Longer> longer;
      for (int i = 0; i < std::ssize(open_); ++i) extend(i, placed, longer);
      is_placed_[op] = true;
      keep_best(op, longer);
      keep_fastest(longer, count + 1 == ops_.size() ? limit_ : kSearchPolicy.open_choices * limit_);
      std::vector<OpClusterStrategy> next;
      for (const Longer& one : longer) {
        next.push_back({open_[one.begin].of_op, one.seconds, one.bytes});
        next.back().of_op[op] = one.strategy;
      }
      open_ = std::move(next);
    }
    return {std::move(open_), dropped_};
  }

 private:
  /// An open choice with a strategy of one more op.
  struct Longer {
    int begin = 0;  // in open_
    int strategy = 0;
    double seconds = 0;
    int64_t bytes = 0;

    bool is_as_good_as(const Longer& other) const {
      return seconds <= other.seconds && bytes <= other.bytes;
    }
  };

  struct Classes {
    std::vector<int> of;  // by strategy
    int64_t count = 0;
  };

  /// The last op first, then those with most links to ops that are placed, the last of them first.
  int op_to_place() const {
    std::vector<int> known(ops_.size(), 0);
    for (const OpClusterLink& link : links_) {
      known[link.from] += is_placed_[link.to];
      known[link.to] += is_placed_[link.from];
    }
    int best = -1;
    for (int op = static_cast<int>(ops_.size()) - 1; op >= 0; --op)
      if (!is_placed_[op] && (best < 0 || known[op] > known[best])) best = op;
    return best;
  }

  /// The op that is placed next.
  struct NextOp {
    int op = 0;
    std::vector<const OpClusterLink*> links;  // to ops that are placed
    std::vector<int64_t> bytes;               // by strategy: of its results, and its workspace
  };

  std::vector<const OpClusterLink*> links_to_placed(int op) const {
    std::vector<const OpClusterLink*> found;
    for (const OpClusterLink& link : links_)
      if ((link.from == op && is_placed_[link.to]) || (link.to == op && is_placed_[link.from]))
        found.push_back(&link);
    return found;
  }

  PlacementIndex at(int op, int slot, int strategy) const {
    return ops_[op].operand[slot][strategy];
  }

  /// What an exchange inside of the op cluster takes; nullopt where there may be none.
  std::optional<double> fit(const OpClusterLink& link, int from, int to) {
    const PlacementIndex made = at(link.from, link.from_slot, from);
    const PlacementIndex wanted = at(link.to, link.to_slot, to);
    if (made == wanted) return 0;
    if (link.kind == OpClusterLink::Kind::kAgrees) return {};
    const ReshardPrices::TypeIndex type = ops_[link.from].types[link.from_slot];
    if (prices_.placement(type, made).partial.empty()) {
      const DistAttr& window = prices_.placement(type, wanted);
      if (!window.has_windows() || !(without_windows(window) == prices_.placement(type, made)))
        return {};
    } else if (!makes_sum(link.from, from)) {
      return {};
    }
    const double time = seconds_(prices_.price(type, made, wanted));
    return std::isfinite(time) ? std::optional(time) : std::nullopt;
  }

  /// Is there no earlier place for the exchange of the partial sum? Does the op reduce, or add
  /// several partial sums?
  bool makes_sum(int op, int strategy) const {
    const OpStrategies& all = ops_[op];
    int partial_inputs = 0;
    for (int slot = all.outputs; slot < std::ssize(all.operand); ++slot)
      partial_inputs +=
          !prices_.placement(all.types[slot], all.operand[slot][strategy]).partial.empty();
    return partial_inputs != 1;
  }

  /// Does an op that was placed earlier, or that an earlier link names, read the same value in the
  /// same placement?
  bool is_exchanged(const OpClusterLink& link, PlacementIndex wanted,
                    const std::vector<int>& of_op) {
    const bool is_source = is_placed_[link.to];
    return std::ranges::any_of(links_, [&](const OpClusterLink& other) {
      return other.kind == link.kind && other.from == link.from &&
             other.from_slot == link.from_slot && is_placed_[other.to] &&
             (is_source ? &other < &link : true) &&
             at(other.to, other.to_slot, of_op[other.to]) == wanted;
    });
  }

  void extend(int begin, const NextOp& next, std::vector<Longer>& longer) {
    const OpClusterStrategy& open = open_[begin];
    const int op = next.op;
    for (int s = 0; s < std::ssize(ops_[op].shardings); ++s) {
      double time = open.seconds + ops_[op].demands[s].price.estimate.value();
      bool fits = true;
      for (const OpClusterLink* each : next.links) {
        const OpClusterLink& link = *each;
        const bool is_source = link.from == op && is_placed_[link.to];
        const std::optional<double> exchange =
            is_source ? fit(link, s, open.of_op[link.to]) : fit(link, open.of_op[link.from], s);
        fits = exchange.has_value();
        if (!fits) break;
        if (*exchange > 0 &&
            !is_exchanged(link, at(link.to, link.to_slot, is_source ? open.of_op[link.to] : s),
                          open.of_op))
          time += *exchange;
      }
      if (fits) longer.push_back({begin, s, time, open.bytes + next.bytes[s]});
    }
  }

  std::vector<int64_t> bytes_by_strategy(int op) const {
    const OpStrategies& all = ops_[op];
    std::vector<int64_t> sums;
    for (size_t strategy = 0; strategy < all.shardings.size(); ++strategy) {
      sums.push_back(all.demands[strategy].workspace.value());
      for (int slot = 0; slot < all.outputs; ++slot)
        sums.back() += prices_.local_bytes(all.types[slot], all.operand[slot][strategy]).value();
    }
    return sums;
  }

  /// By op: the slots that what follows depends on.
  std::vector<std::vector<int>> open_slots() const {
    std::vector<std::vector<bool>> open = boundary_;
    for (const OpClusterLink& link : links_) {
      if (is_placed_[link.from] == is_placed_[link.to]) continue;
      open[link.from][link.from_slot] = true;
      open[link.to][link.to_slot] = true;
    }
    std::vector<std::vector<int>> slots(ops_.size());
    for (int op = 0; op < std::ssize(open); ++op)
      for (int slot = 0; slot < std::ssize(open[op]); ++slot)
        if (open[op][slot] && is_placed_[op]) slots[op].push_back(slot);
    return slots;
  }

  /// Numbers for the strategies of an op, equal where these slots have equal placements.
  Classes classes_of(int op, const std::vector<int>& slots) const {
    std::map<std::vector<PlacementIndex>, int> known;
    Classes classes;
    std::vector<PlacementIndex> ends(slots.size());
    for (int strategy = 0; strategy < std::ssize(ops_[op].shardings); ++strategy) {
      for (size_t k = 0; k < slots.size(); ++k) ends[k] = at(op, slots[k], strategy);
      classes.of.push_back(known.try_emplace(ends, static_cast<int>(known.size())).first->second);
    }
    classes.count = static_cast<int64_t>(known.size());
    return classes;
  }

  /// Numbers for these choices, equal where they have equal placements at open slots.
  std::vector<int64_t> groups_of(int op, const std::vector<Longer>& all) const {
    const std::vector<std::vector<int>> slots = open_slots();
    std::vector<int64_t> groups(all.size(), 0);
    int64_t count = 1;
    for (int place = 0; place < std::ssize(slots); ++place) {
      if (slots[place].empty()) continue;
      const Classes classes = classes_of(place, slots[place]);
      if (count > std::numeric_limits<int64_t>::max() / classes.count) count = renumber(groups);
      for (size_t i = 0; i < all.size(); ++i) {
        const int strategy = place == op ? all[i].strategy : open_[all[i].begin].of_op[place];
        groups[i] = groups[i] * classes.count + classes.of[strategy];
      }
      count *= classes.count;
    }
    return groups;
  }

  /// The same groups by consecutive numbers. Returns how many there are.
  static int64_t renumber(std::vector<int64_t>& groups) {
    std::unordered_map<int64_t, int64_t> known;
    for (int64_t& group : groups)
      group = known.try_emplace(group, static_cast<int64_t>(known.size())).first->second;
    return static_cast<int64_t>(known.size());
  }

  /// Of those with equal placements at open slots, the best in time and in bytes.
  void keep_best(int op, std::vector<Longer>& all) const {
    std::vector<int64_t> groups = groups_of(op, all);
    std::vector<std::vector<int>> kept(static_cast<size_t>(renumber(groups)));
    for (int i = 0; i < std::ssize(all); ++i) {
      std::vector<int>& rivals = kept[groups[i]];
      if (std::ranges::any_of(rivals, [&](int other) { return all[other].is_as_good_as(all[i]); }))
        continue;
      std::erase_if(rivals, [&](int other) { return all[i].is_as_good_as(all[other]); });
      rivals.push_back(i);
    }
    std::vector<int> order;
    for (const std::vector<int>& list : kept) order.insert(order.end(), list.begin(), list.end());
    std::ranges::sort(order);
    std::vector<Longer> best;
    for (int i : order) best.push_back(all[i]);
    all = std::move(best);
  }

  /// The first one divides nothing.
  void keep_fastest(std::vector<Longer>& all, int count) {
    if (std::ssize(all) <= count) return;
    std::stable_sort(all.begin() + 1, all.end(),
                     [](const Longer& a, const Longer& b) { return a.seconds < b.seconds; });
    dropped_ += std::ssize(all) - count;
    all.resize(count);
  }

  const std::vector<OpStrategies>& ops_;
  const std::vector<OpClusterLink>& links_;
  const std::vector<std::vector<bool>>& boundary_;
  ReshardPrices& prices_;
  const std::function<double(const Price&)>& seconds_;
  const int limit_;
  std::vector<bool> is_placed_;          // by op
  std::vector<OpClusterStrategy> open_;  // of the ops that are placed
  int64_t dropped_ = 0;
};

}  // namespace

OpClusterStrategies compose_op_cluster(const std::vector<OpStrategies>& ops,
                                       const std::vector<OpClusterLink>& links,
                                       const std::vector<std::vector<bool>>& boundary,
                                       ReshardPrices& prices,
                                       const std::function<double(const Price&)>& seconds,
                                       int limit) {
  return Composition(ops, links, boundary, prices, seconds, limit).run();
}

}  // namespace tessera
