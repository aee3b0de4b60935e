#include "sharding/reshard/available_placements.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

class HeldMatrix : public testing::Test {
 protected:
  const MeshPtr mesh = std::make_shared<const Mesh>(parse_mesh("a=4"));
  const TensorType type{DType::kF32, {64, 64}};
  const DistAttr whole = DistAttr::replicated(mesh, 2), rows = from_placements(mesh, 2, {Shard(0)}),
                 columns = from_placements(mesh, 2, {Shard(1)}),
                 partial = from_placements(mesh, 2, {Partial()});
  ReshardPlans plans{{}};
};

TEST_F(HeldMatrix, BecomesPartialOnlyWhereNothingIsDividedOverTheAxis) {
  EXPECT_TRUE(is_reshardable(type.shape, partial, rows));
  EXPECT_TRUE(is_reshardable(type.shape, whole, partial));
  EXPECT_FALSE(is_reshardable(type.shape, rows, partial));
}

TEST_F(HeldMatrix, IsTakenFromWhereNothingIsSent) {
  const std::vector<const DistAttr*> available{&rows, &whole};
  EXPECT_EQ(cheapest_source(plans, type, available, columns), 1);  // a slice
  EXPECT_EQ(cheapest_source(plans, type, available, rows), 0);     // it is there
}

TEST_F(HeldMatrix, IsMadeWholeFirstWhereItIsNeededWholeLater) {
  const std::vector<const DistAttr*> available{&rows};
  EXPECT_EQ(choose_intermediate(plans, type, available, columns, {columns, whole}), whole);
  EXPECT_EQ(choose_intermediate(plans, type, available, columns, {columns, rows}), std::nullopt);
  EXPECT_EQ(choose_intermediate(plans, type, available, whole, {whole, columns}), std::nullopt);
}

}  // namespace
}  // namespace tessera
