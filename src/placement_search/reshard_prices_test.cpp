#include "placement_search/reshard_prices.h"

#include <gtest/gtest.h>

#include <random>

#include "reshard/reshard.h"

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
  for (const Exchange& exchange : plan_reshard(type, from, to, {cost.links}))
    sum += price(type, exchange, cost.links).estimate;
  return sum;
}

TEST(ClosedFormPrice, OfRandomPairsIsThatOfThePlannedExchanges) {
  std::mt19937 random(20261123);
  CostModel cost;
  cost.device.copied_bytes_per_second = 1e18;  // only the links are compared
  cost.device.launch = Seconds(0);
  cost.links.axes["x"] = {Seconds(2e-6), 2e10};
  cost.links.axes["y"] = {Seconds(5e-6), 5e9};
  const Shape shapes[] = {{4}, {2, 2}, {4, 2}, {2, 4}, {8, 4}};
  int compared = 0;
  for (int i = 0; i < 2000; ++i) {
    const Shape& extents = shapes[i % 5];
    const auto mesh = std::make_shared<const Mesh>(
        extents,
        extents.size() == 1 ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "y"});
    const TensorType type{DType::kF32, i % 3 == 0 ? Shape{64, 64} : Shape{2048, 256, 64}};
    const DistAttr from = random_placement(mesh, type.shape, true, random);
    DistAttr to = random_placement(mesh, type.shape, true, random);
    keep_partial(from, to);
    if (!has_closed_form(type, from, to)) continue;
    const double expected = planned(type, from, to, cost).value();
    const double found = closed_form_price(type, from, to, cost).estimate.value();
    ++compared;
    ASSERT_NEAR(found, expected, 0.05 * expected + 1e-9)
        << to_text(type) << " on " << to_text(*mesh) << " from " << to_text(from) << " to "
        << to_text(to);
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace tessera
