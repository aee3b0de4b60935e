#include "sharding/layout/mesh.h"

#include <gtest/gtest.h>

#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::message_of;

Mesh three_by_two() {
  return Mesh({3, 2}, {"x", "y"});
}

TEST(Mesh, NumbersItsRanksInRowMajorOrder) {
  const Mesh mesh = three_by_two();
  EXPECT_EQ(mesh.size(), 6);
  EXPECT_EQ(mesh.rank_at({1, 1}), 3);
  EXPECT_EQ(mesh.coordinate_of(4), (Coordinate{2, 0}));
  EXPECT_EQ(mesh.coordinate_of(6), std::nullopt);
}

TEST(Mesh, ReshapesAndSlices) {
  const Mesh mesh({2, 2}, {"dp", "tp"}, {4, 5, 6, 7});
  EXPECT_EQ(to_text(mesh), "dp=2 tp=2 {4,5,6,7}");
  EXPECT_EQ(to_text(mesh.reshape({4}, {"dp"})), "dp=4 {4,5,6,7}");
  EXPECT_EQ(to_text(mesh.slice("dp", 1)), "tp=2 {6,7}");
  EXPECT_EQ(to_text(mesh.slice("tp", 0)), "dp=2 {4,6}");
}

TEST(Mesh, ReadsItsTextInAllSpellings) {
  for (const char* text : {"dp=2 tp=4", "dp=2,tp=4", "dp2-tp4"})
    EXPECT_EQ(to_text(parse_mesh(text)), "dp=2 tp=4") << text;
}

TEST(Mesh, TheWeightsOfAnAxisArePrintedAndParsed) {
  for (const char* text : {"dp=2:1 tp=2", "dp=2:1,tp=2", "dp2:1-tp2"}) {
    const Mesh mesh = parse_mesh(text);
    EXPECT_EQ(to_text(mesh), "dp=2:1 tp=2") << text;
    EXPECT_EQ(mesh.shape(), (Shape{2, 2}));
    EXPECT_EQ(mesh.weights(), (AxisWeights{{2, 1}, {}}));
  }
  EXPECT_EQ(to_text(Mesh({2}, {"dp"}, {4, 5}, {{1, 3}})), "dp=1:3 {4,5}");
}

TEST(Mesh, OnlyTheRatiosOfWeightsMatter) {
  EXPECT_EQ(parse_mesh("dp=4:2"), parse_mesh("dp=2:1"));
  EXPECT_EQ(parse_mesh("dp=3:3:3"), parse_mesh("dp=3"));
  EXPECT_FALSE(parse_mesh("dp=3:3").is_weighted());
  EXPECT_NE(parse_mesh("dp=2:1"), parse_mesh("dp=2"));
  EXPECT_NE(parse_mesh("dp=2:1"), parse_mesh("dp=1:2"));
}

TEST(Mesh, KnowsTheRanksOfTheGreatestAndTheLeastWeights) {
  const Mesh mesh = parse_mesh("a=1:3:3 b=2 c=2:1");
  EXPECT_EQ(mesh.largest_shard_coordinate(), (Coordinate{1, 0, 0}));
  EXPECT_EQ(mesh.smallest_shard_coordinate(), (Coordinate{0, 1, 1}));
  EXPECT_EQ(three_by_two().largest_shard_coordinate(), (Coordinate{0, 0}));
  EXPECT_EQ(three_by_two().smallest_shard_coordinate(), (Coordinate{2, 1}));
}

TEST(Mesh, ASliceKeepsTheWeightsOfTheOtherAxes) {
  EXPECT_EQ(to_text(parse_mesh("pp=2 dp=2:1").slice("pp", 1)), "dp=2:1 {2,3}");
  EXPECT_EQ(to_text(parse_mesh("pp=2 dp=2:1").slice("dp", 1)), "pp=2 {1,3}");
}

TEST(Mesh, RefusesWeightsWithThreeParts) {
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { Mesh({3}, {"dp"}, {}, {{2, 1}}); }),
            "the mesh axis 'dp' has the weights 2:1 and 3 parts\n  why: each part has one weight\n"
            "  fix: give 3 weights");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { parse_mesh("dp=2:0"); }),
            "the mesh axis 'dp' has the weights 2:0\n  why: a weight is a whole number from 1 to "
            "1000000\n  fix: write the ratio of the parts in such numbers, as 2:1");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { parse_mesh("mb=2:1"); }),
            "the mesh axis 'mb' has the weights 2:1\n  why: the micro-batches of a step have the "
            "same number of rows, because one compiled program serves all of them\n  fix: weight "
            "the axis of the mesh that divides the rows of a micro-batch");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { parse_mesh("dp=2:1").reshape({2}, {"x"}); }),
            "the mesh dp=2:1 cannot be reshaped\n  why: the parts of its axes have weights, and "
            "other axes have other parts\n  fix: make the mesh with the axes that it needs");
}

TEST(Mesh, RefusesWithThreeParts) {
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { Mesh({2, 2}, {"dp", "dp"}); }),
            "the mesh axis 'dp' occurs twice\n  why: an axis is named once\n  fix: rename or merge "
            "one of them");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { three_by_two().axis("tp"); }),
            "the mesh x=3 y=2 has no axis 'tp'\n  why: its axes are x, y\n  fix: use one of these, "
            "or add the axis to the mesh");
  // The program added the axis of the micro-batches, and the ranks of its copies.
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { Mesh({2, 1}, {"mb", "dp"}, {4, 9}).axis("tp"); }),
            "the mesh dp=1 has no axis 'tp'\n  why: its axes are dp\n  fix: use one of these, "
            "or add the axis to the mesh");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { three_by_two().reshape({4}, {"x"}); }),
            "a mesh of 6 ranks cannot take the shape [4]\n  why: that shape has 4 coordinates\n  "
            "fix: choose extents whose product is 6");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { three_by_two().slice("y", 2); }),
            "axis 'y' has no index 2\n  why: its size is 2\n  fix: use an index from 0 to 1");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { Mesh({2}, {"x"}, {1, 1}); }),
            "a rank occurs twice in a mesh\n  why: each coordinate of a mesh is another rank\n  "
            "fix: list each rank once");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { parse_mesh("dp=two"); }),
            "'dp=two' is not a mesh\n  why: 'dp=two' is not an axis and its size\n  fix: write it "
            "as dp=2 tp=4, with weights as dp=2:1");
}

TEST(ParseMesh, RefusesMoreAxesThanPlansHave) {
  EXPECT_EQ(parse_mesh("a=1 b=1 c=1 d=1 e=1 f=1 g=1").axis_count(), kMaxMeshAxes);
  EXPECT_THROW(parse_mesh("a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1"), UserError);
  EXPECT_THROW(parse_mesh("xM MMMM M M M M M M M M M1 y=2 x"), UserError);
}

}  // namespace
}  // namespace tessera
