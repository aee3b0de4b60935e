#include "planner/placement/internal/reshard_forms.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sharding/reshard/decomposition.h"
#include "sharding/reshard/exchange.h"
#include "sharding/reshard/price.h"

namespace tessera {
namespace {

/// Times of exchanges that follow each other, and the bytes that a rank puts in their place, its
/// own included.
struct Steps {
  Price time;
  double copied = 0;
  int count = 0;

  void add(int64_t peers, double bytes, const LinkCost& link) {
    const Seconds transfer(bytes / link.bytes_per_second);
    const Seconds latency(static_cast<double>(peers) * link.latency.value());
    time += {link.start + latency + transfer, transfer};
    copied += bytes * static_cast<double>(peers + 1) / static_cast<double>(peers);
    ++count;
  }
};

/// What happens on one axis.
struct AxisChange {
  enum class Kind { kNone, kSlice, kScatter, kReduce, kMove, kGather };
  Kind kind = Kind::kNone;
  int64_t size = 1;
  const LinkCost* link = nullptr;
  /// Of a scatter and a gather: the dim that the axis divides, and the number of axes there before
  /// it. No dim where the axes of the dim may come or go in any order.
  int dim = -1, depth = 0;
};

void set_position(int axis, const DistAttr& attr, AxisChange& change) {
  for (int d = 0; d < std::ssize(attr.dims); ++d)
    if (const auto& axes = attr.dims[d].axes; std::ranges::count(axes, axis))
      change.dim = d, change.depth = static_cast<int>(std::ranges::find(axes, axis) - axes.begin());
}

AxisChange::Kind kind_of(const Placement& from, const Placement& to) {
  using Kind = AxisChange::Kind;
  using Place = Placement::Kind;
  if (from == to) return Kind::kNone;
  if (from.kind == Place::kPartial)
    return to.kind == Place::kShard ? Kind::kScatter : Kind::kReduce;
  if (from.kind == Place::kReplicate) return Kind::kSlice;
  return to.kind == Place::kShard ? Kind::kMove : Kind::kGather;
}

/// What happens on an axis, for each of the levels that it spans.
void add_changes(const Mesh& mesh, int axis, AxisChange change, const LinkCosts& links,
                 std::vector<AxisChange>& changes) {
  const auto levels = links.levels.find(mesh.axes()[axis]);
  change.size = mesh.shape()[axis];
  change.link = &links.on(mesh.axes()[axis]);
  if (levels == links.levels.end()) return changes.push_back(change);
  int64_t ranks = 1;
  for (const AxisLevel& level : levels->second) ranks *= level.size;
  if (ranks != change.size) return changes.push_back(change);
  for (const AxisLevel& level : levels->second) {
    change.size = level.size;
    change.link = &links.on(level.name);
    changes.push_back(change);
  }
}

/// May the axes of a dim come, or go, in any order? They may where none of them stays: what a rank
/// has meanwhile is in chunks.
bool is_in_any_order(const DistAttr& divided, const DistAttr& other, int dim) {
  return dim >= 0 && divided.dims[dim].axes.size() > 1 && other.dims[dim].axes.empty();
}

double part(int64_t size) {
  return static_cast<double>(size - 1) / static_cast<double>(size);
}

/// Those of a kind in the order in which they send least: scatters over fast links first, gathers
/// last. In a dim the outer axes are scattered first and gathered last.
///   left  those of a kind
std::vector<const AxisChange*> in_order(std::vector<const AxisChange*> left, bool gathers) {
  std::vector<const AxisChange*> order;
  const auto waits_for = [&](const AxisChange& a, const AxisChange& b) {
    return a.dim >= 0 && a.dim == b.dim && (gathers ? a.depth < b.depth : a.depth > b.depth);
  };
  while (!left.empty()) {
    const AxisChange* next = nullptr;
    for (const AxisChange* change : left) {
      if (std::ranges::any_of(left, [&](const auto* b) { return waits_for(*change, *b); }))
        continue;
      const auto is_better = [&] {
        const double a = change->link->bytes_per_second, b = next->link->bytes_per_second;
        return gathers ? a < b : a > b;
      };
      if (!next || is_better()) next = change;
    }
    order.push_back(next);
    std::erase(left, next);
  }
  return order;
}

/// One collective after the other. A sum that all ranks want is made at once, or in parts that are
/// gathered at the end.
///   bytes     what a rank holds at the start
///   in_parts  by reduction in the order of in_order(), as bits
Steps chain(const std::vector<AxisChange>& changes, double bytes, unsigned in_parts) {
  using Kind = AxisChange::Kind;
  Steps steps;
  const auto all_of = [&](Kind kind) {
    std::vector<const AxisChange*> list;
    for (const AxisChange& change : changes)
      if (change.kind == kind) list.push_back(&change);
    return list;
  };
  const auto each = [&](Kind kind, auto&& act) {
    for (const AxisChange* change : in_order(all_of(kind), false)) act(*change);
  };
  each(Kind::kSlice, [&](const AxisChange& c) { bytes /= static_cast<double>(c.size); });
  if (!all_of(Kind::kSlice).empty()) steps.copied += bytes, ++steps.count;
  const auto scatter = [&](const AxisChange& c) {
    steps.add(c.size - 1, bytes * part(c.size), *c.link);
    bytes /= static_cast<double>(c.size);
  };
  each(Kind::kScatter, scatter);
  std::vector<const AxisChange*> scattered;
  each(Kind::kReduce, [&, bit = 0](const AxisChange& c) mutable {
    if ((in_parts >> bit++ & 1) == 0) {
      steps.add(c.size - 1, bytes * static_cast<double>(c.size - 1), *c.link);
      return;
    }
    scatter(c);
    scattered.push_back(&c);
  });
  each(Kind::kMove,
       [&](const AxisChange& c) { steps.add(c.size - 1, bytes * part(c.size), *c.link); });
  const auto gather = [&](const AxisChange& c) {
    bytes *= static_cast<double>(c.size);
    steps.add(c.size - 1, bytes * part(c.size), *c.link);
  };
  for (const AxisChange* change : all_of(Kind::kGather)) scattered.push_back(change);
  for (const AxisChange* change : in_order(scattered, true)) gather(*change);
  return steps;
}

/// Every rank takes what it lacks from each of those that have it.
Steps at_once(const std::vector<AxisChange>& changes, double bytes) {
  using Kind = AxisChange::Kind;
  double wanted = bytes, shares = 1;
  std::vector<const AxisChange*> exchanged;
  for (const AxisChange& change : changes) {
    const auto size = static_cast<double>(change.size);
    if (change.kind == Kind::kSlice || change.kind == Kind::kScatter) wanted /= size;
    if (change.kind == Kind::kGather) wanted *= size;
    if (change.kind == Kind::kGather || change.kind == Kind::kMove) shares *= size;
    if (change.kind != Kind::kNone && change.kind != Kind::kSlice) exchanged.push_back(&change);
  }
  // The senders that differ from a receiver on a set of axes are behind the slowest link of these.
  Steps steps;
  Seconds start{0};  // of the one exchange
  for (size_t set = 1; set < size_t{1} << exchanged.size(); ++set) {
    int64_t senders = 1;
    const LinkCost* slowest = nullptr;
    for (size_t i = 0; i < exchanged.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      senders *= exchanged[i]->size - 1;
      if (!slowest || exchanged[i]->link->bytes_per_second < slowest->bytes_per_second)
        slowest = exchanged[i]->link;
    }
    steps.add(senders, static_cast<double>(senders) * wanted / shares,
              {slowest->latency, slowest->bytes_per_second});
    start = std::max(start, slowest->start);
  }
  steps.time.estimate += start;
  double contributions = 1;
  for (const AxisChange* change : exchanged)
    if (change->kind == Kind::kScatter || change->kind == Kind::kReduce)
      contributions *= static_cast<double>(change->size);
  steps.copied = wanted * contributions;
  steps.count = 1;
  return steps;
}

/// The same axes of a dim in another order.
bool reorders(const DistAttr& from, const DistAttr& to) {
  for (size_t d = 0; d < from.dims.size(); ++d) {
    std::vector<int> kept_from, kept_to;
    for (int axis : from.dims[d].axes)
      if (std::ranges::count(to.dims[d].axes, axis)) kept_from.push_back(axis);
    for (int axis : to.dims[d].axes)
      if (std::ranges::count(from.dims[d].axes, axis)) kept_to.push_back(axis);
    if (kept_from != kept_to) return true;
  }
  return false;
}

/// An outer axis of a dim comes or goes while an inner one stays: every rank needs another part.
bool moves_kept_parts(const DistAttr& from, const DistAttr& to) {
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const std::vector<int>& a = from.dims[d].axes;
    const std::vector<int>& b = to.dims[d].axes;
    const size_t common = std::ranges::mismatch(a, b).in1 - a.begin();
    if (common < a.size() && common < b.size()) return true;
  }
  return false;
}

/// Does an axis that moves between dims stand in front of another one? Then it cannot
/// move when its turn comes.
bool moves_outer_axes(const DistAttr& from, const DistAttr& to) {
  const auto any = [](const DistAttr& here, const DistAttr& there) {
    return std::ranges::any_of(here.dims, [&](const DimSharding& dim) {
      bool has_mover = false;
      for (size_t i = 0; i < dim.axes.size(); ++i) {
        const size_t d = &dim - here.dims.items().data();
        const bool stays = std::ranges::count(there.dims[d].axes, dim.axes[i]) > 0;
        const bool moves = !stays && there.is_sharded_on(dim.axes[i]);
        if (has_mover) return true;
        has_mover = moves;
      }
      return false;
    });
  };
  return any(from, to) || any(to, from);
}

}  // namespace

bool has_even_parts(const TensorType& type, const DistAttr& attr) {
  if (attr.mesh->is_weighted()) return false;
  for (int d = 0; d < std::ssize(attr.dims); ++d) {
    const DimSharding& dim = attr.dims[d];
    if (!dim.windows.empty() || dim.unit != 1 || dim.chunks != 1 ||
        type.shape[d] % attr.parts(d) != 0)
      return false;
  }
  return true;
}

bool starts_partial(const DistAttr& from, const DistAttr& to) {
  return std::ranges::any_of(to.partial, [&](const PartialAxis& partial) {
    return !std::ranges::count(from.partial, partial);
  });
}

bool has_closed_form(const TensorType& type, const DistAttr& from, const DistAttr& to) {
  return has_even_parts(type, from) && has_even_parts(type, to) && !starts_partial(from, to) &&
         !reorders(from, to) && !moves_kept_parts(from, to) && !moves_outer_axes(from, to);
}

namespace {

Price with_copies(const Steps& steps, const CostModel& cost) {
  return steps.time +
         copy_price(Bytes(static_cast<int64_t>(steps.copied)), steps.count, cost.device);
}

Steps closed_form(const TensorType& type, const DistAttr& from, const DistAttr& to,
                  const CostModel& cost) {
  const std::vector<Placement> a = from.placements(), b = to.placements();
  std::vector<AxisChange> changes;
  for (int axis = 0; axis < from.mesh->axis_count(); ++axis) {
    AxisChange change{kind_of(a[axis], b[axis])};
    const bool comes = change.kind == AxisChange::Kind::kScatter;
    set_position(axis, comes ? to : from, change);
    if (is_in_any_order(comes ? to : from, comes ? from : to, change.dim)) change.dim = -1;
    add_changes(*from.mesh, axis, change, cost.links, changes);
  }
  const auto bytes =
      static_cast<double>(byte_size({type.dtype, from.largest_shape(type.shape)}).value());
  Steps best = at_once(changes, bytes);
  const auto reductions = std::ranges::count(changes, AxisChange::Kind::kReduce, &AxisChange::kind);
  // plan_reshard() makes sums over several axes all at once, or all in parts. It compares times
  // without copies, and of equal ones it takes the exchange of all ranks.
  for (unsigned in_parts : {0U, (1U << reductions) - 1})
    if (in_parts == 0 && reductions > 1)
      continue;
    else if (Steps steps = chain(changes, bytes, in_parts);
             steps.time.estimate < best.time.estimate)
      best = steps;
  return best;
}

}  // namespace

Price closed_form_price(const TensorType& type, const DistAttr& from, const DistAttr& to,
                        const CostModel& cost) {
  return from == to ? Price{} : with_copies(closed_form(type, from, to, cost), cost);
}

namespace {

/// A value whose axes change places one after the other.
class Rearrangement {
 public:
  Rearrangement(const TensorType& type, const DistAttr& from, const DistAttr& to,
                const CostModel& cost)
      : type_(type), to_(to), cost_(cost), now_(from), bytes_(bytes_of(from)) {
    limit_ = std::max(bytes_, bytes_of(to));
  }

  /// The collectives over one axis each: an axis is divided, or moves, as soon as its place is
  /// free, and one that has no place is gathered. nullopt: a rank would hold more than it does
  /// before and after.
  std::optional<Steps> run() {
    while (!(now_.dims == to_.dims))
      if (!slices() && !moves() && !gathers()) return std::nullopt;
    return steps_;
  }

 private:
  double bytes_of(const DistAttr& attr) const {
    return static_cast<double>(byte_size({type_.dtype, attr.largest_shape(type_.shape)}).value());
  }
  double size(int axis) const { return static_cast<double>(to_.mesh->shape()[axis]); }
  const LinkCost& link(int axis) const { return cost_.links.on(to_.mesh->axes()[axis]); }

  /// The dim whose next axis is this one in the target.
  int free_place(int axis) const {
    for (int d = 0; d < std::ssize(to_.dims); ++d) {
      const std::vector<int>& now = now_.dims[d].axes;
      const std::vector<int>& wanted = to_.dims[d].axes;
      if (now.size() < wanted.size() && wanted[now.size()] == axis &&
          std::equal(now.begin(), now.end(), wanted.begin()))
        return d;
    }
    return -1;
  }
  bool is_in_place(const DimSharding& dim) const {
    const std::vector<int>& wanted = to_.dims[&dim - now_.dims.items().data()].axes;
    return dim.axes.size() <= wanted.size() &&
           std::equal(dim.axes.begin(), dim.axes.end(), wanted.begin());
  }

  bool slices() {
    for (int axis = 0; axis < to_.mesh->axis_count(); ++axis) {
      const int place = now_.uses(axis) ? -1 : free_place(axis);
      if (place < 0) continue;
      now_.dims[place].axes.push_back(axis);
      bytes_ /= size(axis);
      steps_.copied += bytes_, ++steps_.count;
      return true;
    }
    return false;
  }

  bool moves() {
    for (DimSharding& dim : now_.dims) {
      if (is_in_place(dim)) continue;
      const int axis = dim.axes.back(), place = free_place(axis);
      if (place < 0) continue;
      dim.axes.pop_back();
      now_.dims[place].axes.push_back(axis);
      steps_.add(to_.mesh->shape()[axis] - 1, bytes_ * part(to_.mesh->shape()[axis]),
                 cost_.links.outermost_on(to_.mesh->axes()[axis]));
      return true;
    }
    return false;
  }

  bool gathers() {
    for (DimSharding& dim : now_.dims) {
      if (is_in_place(dim) || bytes_ * size(dim.axes.back()) > limit_) continue;
      const int axis = dim.axes.back();
      dim.axes.pop_back();
      bytes_ *= size(axis);
      steps_.add(to_.mesh->shape()[axis] - 1, bytes_ * part(to_.mesh->shape()[axis]), link(axis));
      return true;
    }
    return false;
  }

  const TensorType& type_;
  const DistAttr& to_;
  const CostModel& cost_;
  DistAttr now_;
  double bytes_ = 0, limit_ = 0;
  Steps steps_;
};

/// One exchange in which every rank takes what it lacks from those that have it.
Steps one_exchange(const TensorType& type, const DistAttr& from, const DistAttr& to,
                   const CostModel& cost) {
  Steps steps;
  steps.time = price(type, classified(type.shape, from, to), cost.links);
  steps.copied = static_cast<double>(byte_size({type.dtype, to.largest_shape(type.shape)}).value());
  for (const PartialAxis& axis : resolved_axes(from, to))
    steps.copied *= static_cast<double>(from.mesh->shape()[axis.axis]);
  steps.count = 1;
  return steps;
}

void append(Steps& steps, const Steps& next) {
  steps.time += next.time;
  steps.copied += next.copied;
  steps.count += next.count;
}

Steps cheapest(const TensorType& type, const DistAttr& from, const DistAttr& to,
               const CostModel& cost) {
  if (from == to) return {};
  if (has_closed_form(type, from, to)) return closed_form(type, from, to, cost);
  Steps best = one_exchange(type, from, to, cost);
  const auto consider = [&](const Steps& steps) {
    if (steps.time.estimate < best.time.estimate) best = steps;
  };
  if (resolved_axes(from, to).empty()) {
    if (const std::optional<Steps> steps = Rearrangement(type, from, to, cost).run())
      consider(*steps);
    return best;
  }
  std::vector<DistAttr> middles = reduced_in_parts(type.shape, from, to);
  if (std::optional<DistAttr> middle = reduced_first(from, to)) middles.push_back(*middle);
  for (const DistAttr& middle : middles) {
    if (middle == from || middle == to) continue;
    Steps steps = cheapest(type, from, middle, cost);
    append(steps, cheapest(type, middle, to, cost));
    consider(steps);
  }
  return best;
}

}  // namespace

Price rearranged_price(const TensorType& type, const DistAttr& from, const DistAttr& to,
                       const CostModel& cost) {
  return with_copies(cheapest(type, from, to, cost), cost);
}

}  // namespace tessera
