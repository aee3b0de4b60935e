#include "sharding/reshard/reshard_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sharding/layout/testing/mesh_of.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {
namespace {

/// Every placement of a matrix on a mesh of two axes, without partial values.
std::vector<DistAttr> placements_of(const MeshPtr& mesh) {
  std::vector<DistAttr> list;
  for (const Placement& first : {Replicate(), Shard(0), Shard(1)})
    for (const Placement& second : {Replicate(), Shard(0), Shard(1)})
      list.push_back(from_placements(mesh, 2, {first, second}));
  return list;
}

TEST(ReshardPlans, AreThoseOfPlanReshardHoweverOftenTheyAreAsked) {
  const MeshPtr meshes[] = {mesh_of("a=2 b=4"), mesh_of("a=4 b=2")};
  ReshardPlans plans({});
  std::mt19937 engine(1);
  const auto draw = [&](size_t limit) { return engine() % limit; };
  for (int round = 0; round < 600; ++round) {
    const std::vector<DistAttr> from_list = placements_of(meshes[draw(2)]),
                                to_list = placements_of(meshes[draw(2)]);
    const DistAttr &from = from_list[draw(9)], &to = to_list[draw(9)];
    const TensorType type{DType::kF32, draw(2) == 0 ? Shape{16, 8} : Shape{24, 40}};
    const PricedReshard& found = plans.plan(type, from, to);
    const std::vector<Exchange> expected = plan_reshard(type, from, to);
    ASSERT_EQ(found.exchanges.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found.exchanges[i].kind, expected[i].kind);
      EXPECT_EQ(found.exchanges[i].from, expected[i].from);
      EXPECT_EQ(found.exchanges[i].to, expected[i].to);
    }
    int64_t largest = 0;
    for (Rank rank : {to.mesh->ranks().front(), to.mesh->ranks().back()})
      largest = std::max(largest, received_elements(type.shape, expected, rank));
    EXPECT_EQ(found.sent_bytes, 4 * largest);
  }
}

TEST(ReshardPlans, TheBytesAreThoseOfTheRankThatReceivesMostWhateverTheWeights) {
  ReshardPlans plans({});
  const TensorType type{DType::kF32, {12, 12}};
  for (const char* text : {"a=2:1 b=2", "a=1:5 b=1:2", "a=1:2:1 b=3:1"}) {
    const MeshPtr mesh = mesh_of(text);
    for (const DistAttr& from : placements_of(mesh))
      for (const DistAttr& to : placements_of(mesh)) {
        const PricedReshard& found = plans.plan(type, from, to);
        int64_t largest = 0;
        for (Rank rank : mesh->ranks())
          largest = std::max(largest, received_elements(type.shape, found.exchanges, rank));
        EXPECT_EQ(found.sent_bytes, 4 * largest) << to_text(from) << " -> " << to_text(to);
      }
  }
}

TEST(ReshardPlans, TellApartEqualMeshesOfDifferentStages) {
  const MeshPtr one = mesh_of("a=2"), other = mesh_of("a=2");
  ReshardPlans plans({});
  const TensorType type{DType::kF32, {8}};
  for (const MeshPtr& mesh : {one, other})
    EXPECT_EQ(plans.plan(type, DistAttr::replicated(mesh, 1), from_placements(mesh, 1, {Shard(0)}))
                  .exchanges.front()
                  .to.mesh,
              mesh);
}

}  // namespace
}  // namespace tessera
