#include "planner/placement/reshard_prices.h"

#include <algorithm>
#include <limits>

#include "planner/placement/internal/reshard_forms.h"
#include "sharding/reshard/reshard.h"

namespace tessera {
namespace {

constexpr Seconds kNever(std::numeric_limits<double>::infinity());
constexpr Price kImpossible{kNever, kNever};

}  // namespace

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
