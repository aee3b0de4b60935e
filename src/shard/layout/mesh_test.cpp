#include "shard/layout/mesh.h"

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

TEST(Mesh, RefusesWithThreeParts) {
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { Mesh({2, 2}, {"dp", "dp"}); }),
            "the mesh axis 'dp' occurs twice\n  why: an axis is named once\n  fix: rename or merge "
            "one of them");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [] { three_by_two().axis("tp"); }),
            "the mesh x=3 y=2 has no axis 'tp'\n  why: its axes are x, y\n  fix: use one of these, "
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
            "as dp=2 tp=4");
}

}  // namespace
}  // namespace tessera
