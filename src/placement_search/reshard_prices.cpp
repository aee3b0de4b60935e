#include "placement_search/reshard_prices.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "reshard/reshard.h"

namespace tessera {
namespace {

constexpr Seconds kNever(std::numeric_limits<double>::infinity());
constexpr Price kImpossible{kNever, kNever};

/// Times of exchanges that follow each other, and the bytes that a rank puts in their place, its
/// own included.
struct Steps {
  Price time;
  double copied = 0;
  int count = 0;

  void add(int64_t peers, double bytes, const LinkCost& link) {
    const Seconds transfer(bytes / link.bytes_per_second);
    const Seconds latency(static_cast<double>(peers) * link.latency.value());
    time += {latency + transfer, transfer};
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
  /// it.
  int dim = -1, depth = 0;
};

void set_position(int axis, const DistAttr& attr, AxisChange& change) {
  for (int d = 0; d < std::ssize(attr.dims); ++d)
    if (const auto& axes = attr.dims[d].axes; std::ranges::count(axes, axis))
      change.dim = d, change.depth = static_cast<int>(std::ranges::find(axes, axis) - axes.begin());
}

AxisChange change_on(int axis, const Placement& from, const Placement& to, const Mesh& mesh,
                     const LinkCosts& links) {
  using Kind = AxisChange::Kind;
  using Place = Placement::Kind;
  AxisChange change{Kind::kNone, mesh.shape()[axis], &links.on(mesh.axes()[axis])};
  if (from == to) return change;
  if (from.kind == Place::kPartial)
    change.kind = to.kind == Place::kShard ? Kind::kScatter : Kind::kReduce;
  else if (from.kind == Place::kReplicate)
    change.kind = Kind::kSlice;
  else
    change.kind = to.kind == Place::kShard ? Kind::kMove : Kind::kGather;
  return change;
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
  for (size_t set = 1; set < size_t{1} << exchanged.size(); ++set) {
    int64_t senders = 1;
    const LinkCost* slowest = nullptr;
    for (size_t i = 0; i < exchanged.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      senders *= exchanged[i]->size - 1;
      if (!slowest || exchanged[i]->link->bytes_per_second < slowest->bytes_per_second)
        slowest = exchanged[i]->link;
    }
    steps.add(senders, static_cast<double>(senders) * wanted / shares, *slowest);
  }
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

}  // namespace

bool has_closed_form(const TensorType& type, const DistAttr& from, const DistAttr& to) {
  return has_even_parts(type, from) && has_even_parts(type, to) && !starts_partial(from, to) &&
         !reorders(from, to) && !moves_kept_parts(from, to) && !moves_outer_axes(from, to);
}

Price closed_form_price(const TensorType& type, const DistAttr& from, const DistAttr& to,
                        const CostModel& cost) {
  const std::vector<Placement> a = from.placements(), b = to.placements();
  std::vector<AxisChange> changes;
  for (int axis = 0; axis < from.mesh->axis_count(); ++axis) {
    changes.push_back(change_on(axis, a[axis], b[axis], *from.mesh, cost.links));
    set_position(axis, changes.back().kind == AxisChange::Kind::kScatter ? to : from,
                 changes.back());
  }
  const auto bytes =
      static_cast<double>(byte_size({type.dtype, from.largest_shape(type.shape)}).value());
  const auto with_copies = [&](const Steps& steps) {
    return steps.time +
           copy_price(Bytes(static_cast<int64_t>(steps.copied)), steps.count, cost.device);
  };
  Price best = with_copies(at_once(changes, bytes));
  const auto reductions = std::ranges::count(changes, AxisChange::Kind::kReduce, &AxisChange::kind);
  // plan_reshard() makes sums over several axes all at once, or all in parts.
  for (unsigned in_parts : {0U, (1U << reductions) - 1})
    if (in_parts == 0 && reductions > 1)
      continue;
    else if (const Price price = with_copies(chain(changes, bytes, in_parts));
             price.estimate < best.estimate)
      best = price;
  return best;
}

/// Of a reshard between even parts that has no closed form, not below the price of what would be
/// planned: axes that move are gathered first, or every rank takes all it wants from others.
Price rearranged_price(const TensorType& type, const DistAttr& from, const DistAttr& to,
                       const CostModel& cost) {
  DistAttr middle = from;
  double peers = 1;
  const LinkCost* slowest = nullptr;
  const auto exchange_over = [&](int axis) {
    peers *= static_cast<double>(from.mesh->shape()[axis]);
    const LinkCost& link = cost.links.on(from.mesh->axes()[axis]);
    if (!slowest || link.bytes_per_second < slowest->bytes_per_second) slowest = &link;
  };
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const std::vector<int>& held = from.dims[d].axes;
    const auto common = std::ranges::mismatch(held, to.dims[d].axes).in1;
    std::for_each(common, held.end(), exchange_over);
    middle.dims[d].axes.assign(held.begin(), common);
  }
  double contributions = 1;
  for (const PartialAxis& partial : from.partial) {
    if (to.is_partial_on(partial.axis)) continue;
    exchange_over(partial.axis);
    contributions *= static_cast<double>(from.mesh->shape()[partial.axis]);
  }
  const Price gathered =
      closed_form_price(type, from, middle, cost) + closed_form_price(type, middle, to, cost);
  if (!slowest) return gathered;
  const double wanted =
      contributions *
      static_cast<double>(byte_size({type.dtype, to.largest_shape(type.shape)}).value());
  Steps steps;
  steps.add(static_cast<int64_t>(peers) - 1, wanted, *slowest);
  const Price at_once =
      steps.time + copy_price(Bytes(static_cast<int64_t>(wanted)), 1, cost.device);
  return at_once.estimate < gathered.estimate ? at_once : gathered;
}

ReshardPrices::TypeIndex ReshardPrices::type_index(const TensorType& type) {
  const auto found = std::ranges::find(types_, type, &Table::type);
  if (found != types_.end()) return static_cast<int>(found - types_.begin());
  types_.push_back({type, {}, {}, {}});
  return static_cast<int>(types_.size()) - 1;
}

ReshardPrices::PlacementIndex ReshardPrices::placement_index(TypeIndex type, const DistAttr& attr) {
  Table& table = types_[type];
  const auto found = std::ranges::find(table.placements, attr);
  if (found != table.placements.end()) return static_cast<int>(found - table.placements.begin());
  table.placements.push_back(attr);
  table.bytes.push_back(byte_size({table.type.dtype, attr.largest_shape(table.type.shape)}));
  return static_cast<int>(table.placements.size()) - 1;
}

const Price& ReshardPrices::price(TypeIndex type, PlacementIndex from, PlacementIndex to) {
  static constexpr Price kNothing{};
  if (from == to) return kNothing;
  Table& table = types_[type];
  const size_t count = table.placements.size();
  if (table.prices.size() < count) table.prices.resize(count);
  std::vector<std::optional<Price>>& row = table.prices[from];
  if (row.size() < count) row.resize(count);
  if (!row[to]) row[to] = find_price(table.type, table.placements[from], table.placements[to]);
  return *row[to];
}

Price ReshardPrices::find_price(const TensorType& type, const DistAttr& from,
                                const DistAttr& to) const {
  if (starts_partial(from, to) || !holds_all_of(type.shape, from, to)) return kImpossible;
  if (has_closed_form(type, from, to)) return closed_form_price(type, from, to, cost_);
  if (has_even_parts(type, from) && has_even_parts(type, to))
    return rearranged_price(type, from, to, cost_);
  Price sum;
  for (const Exchange& exchange : plan_reshard(type, from, to, options_)) {
    sum += tessera::price(type, exchange, cost_.links);
    int64_t contributions = 1;
    for (const PartialAxis& axis : resolved_axes(exchange.from, exchange.to))
      contributions *= exchange.from.mesh->shape()[axis.axis];
    const Bytes part = byte_size({type.dtype, exchange.to.largest_shape(type.shape)});
    sum += copy_price(Bytes(contributions * part.value()), 1, cost_.device);
  }
  return sum;
}

}  // namespace tessera
