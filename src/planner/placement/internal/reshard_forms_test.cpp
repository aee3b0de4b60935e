#include "planner/placement/internal/reshard_forms.h"

#include <gtest/gtest.h>

#include <random>

#include "sharding/reshard/reshard.h"

namespace tessera {
namespace {

/// A placement of a tensor with as many dims as `shape`, sampled axis by axis.
DistAttr random_placement(const MeshPtr& mesh, const Shape& shape, bool may_be_partial,
                          std::mt19937& random) {
  DistAttr attr = DistAttr::replicated(mesh, static_cast<int>(shape.size()));
  for (int axis = 0; axis < mesh->axis_count(); ++axis) {
    const int kind = std::uniform_int_distribution(0, may_be_partial ? 3 : 2)(random);
    const int dim = std::uniform_int_distribution(0, static_cast<int>(shape.size()) - 1)(random);
    if (kind == 3)
      attr.partial.push_back({axis, ReduceOp::kSum});
    else if (kind > 0)
      attr.dims[dim].axes.push_back(axis);
  }
  return attr;
}

/// Of partial sums that remain, those that `from` has.
void keep_partial(const DistAttr& from, DistAttr& to) {
  erase_if(to.partial,
           [&](const PartialAxis& partial) { return !from.is_partial_on(partial.axis); });
}

/// What the compiler would make of it: the exchanges of plan_reshard, and a copy for each.
Seconds planned(const TensorType& type, const DistAttr& from, const DistAttr& to,
                const CostModel& cost) {
  Seconds sum{0};
  for (const Exchange& exchange : plan_reshard(type, from, to, {cost.links})) {
    int64_t contributions = 1;
    for (const PartialAxis& axis : resolved_axes(exchange.from, exchange.to))
      contributions *= exchange.from.mesh->shape()[axis.axis];
    const Bytes part = byte_size({type.dtype, exchange.to.largest_shape(type.shape)});
    sum += price(type, exchange, cost.links).estimate +
           copy_price(Bytes(contributions * part.value()), 1, cost.device).estimate;
  }
  return sum;
}

struct RandomPair {
  TensorType type;
  DistAttr from, to;
};

RandomPair random_pair(int number, std::mt19937& random) {
  const Shape shapes[] = {{4}, {2, 2}, {4, 2}, {2, 4}, {8, 4}};
  const Shape& extents = shapes[number % 5];
  const auto mesh = std::make_shared<const Mesh>(extents, extents.size() == 1
                                                              ? std::vector<std::string>{"x"}
                                                              : std::vector<std::string>{"x", "y"});
  const TensorType type{DType::kF32, number % 3 == 0 ? Shape{64, 64} : Shape{2048, 256, 64}};
  const DistAttr from = random_placement(mesh, type.shape, true, random);
  DistAttr to = random_placement(mesh, type.shape, true, random);
  keep_partial(from, to);
  return {type, from, to};
}

CostModel two_kinds_of_links() {
  CostModel cost;
  cost.device.copied_bytes_per_second = 1e12;
  cost.device.launch = Seconds(4e-6);
  cost.links.axes["x"] = {Seconds(2e-6), 2e10};
  cost.links.axes["y"] = {Seconds(5e-6), 5e9};
  return cost;
}

TEST(ClosedFormPrice, OfRandomPairsIsThatOfThePlannedExchanges) {
  std::mt19937 random(20261123);
  const CostModel cost = two_kinds_of_links();
  int compared = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto [type, from, to] = random_pair(i, random);
    if (!has_closed_form(type, from, to)) continue;
    const double expected = planned(type, from, to, cost).value();
    const double found = closed_form_price(type, from, to, cost).estimate.value();
    ++compared;
    ASSERT_NEAR(found, expected, 0.05 * expected + 1e-9)
        << to_text(type) << " on " << to_text(*from.mesh) << " from " << to_text(from) << " to "
        << to_text(to);
  }
  EXPECT_GT(compared, 1000);
}

// It does not know all chains: those in which an axis waits in a dim that is not its place.
TEST(RearrangedPrice, OfMostRandomPairsIsThatOfThePlannedExchanges) {
  std::mt19937 random(20261126);
  const CostModel cost = two_kinds_of_links();
  int compared = 0, equal = 0;
  for (int i = 0; i < 8000; ++i) {
    const auto [type, from, to] = random_pair(i, random);
    if (has_closed_form(type, from, to)) continue;
    const double ratio = rearranged_price(type, from, to, cost).estimate.value() /
                         planned(type, from, to, cost).value();
    ++compared;
    equal += std::abs(ratio - 1) <= 0.05;
    ASSERT_GT(ratio, 0.65) << to_text(type) << " on " << to_text(*from.mesh) << " from "
                           << to_text(from) << " to " << to_text(to);
    ASSERT_LT(ratio, 3.5) << to_text(type) << " on " << to_text(*from.mesh) << " from "
                          << to_text(from) << " to " << to_text(to);
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(3 * equal, 2 * compared);
}

}  // namespace
}  // namespace tessera
