#include "sharding/layout/dist_attr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/error.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::HasSubstr;

// The worked example of docs/sharding.md: a 6x12 tensor of values 12 i + j on the mesh
// [[0,1],[2,3],[4,5]] with axes x and y.
struct Example {
  MeshPtr mesh = mesh_of("x=3 y=2");
  Shape shape{6, 12};
  DistAttr of(const std::vector<std::string>& spec) const { return from_spec(mesh, 2, spec); }
  Box box(const std::vector<std::string>& spec, Rank rank) const {
    return of(spec).box(shape, *mesh->coordinate_of(rank));
  }
  int64_t first(const Box& box) const { return 12 * box.ranges[0].begin + box.ranges[1].begin; }
  int64_t last(const Box& box) const {
    return 12 * (box.ranges[0].end - 1) + box.ranges[1].end - 1;
  }
};

TEST(DistAttr, WithoutAxesEveryRankHoldsTheWhole) {
  const Example example;
  for (Rank rank = 0; rank < 6; ++rank)
    EXPECT_EQ(to_text(example.box({"", ""}, rank)), "[0:6, 0:12]");
}

TEST(DistAttr, RowsOverXAndColumnsOverYGiveTwoBySix) {
  const Example example;
  const Box box = example.box({"x", "y"}, 3);
  EXPECT_EQ(to_text(box), "[2:4, 6:12]");
  EXPECT_EQ(example.first(box), 30);  // 12 * 2 + 6
  EXPECT_EQ(example.last(box), 47);   // 12 * 3 + 11
  for (Rank rank = 0; rank < 6; ++rank)
    EXPECT_EQ(example.box({"x", "y"}, rank).shape(), (Shape{2, 6}));
}

TEST(DistAttr, RowsOverYAndColumnsOverXGiveThreeByFour) {
  const Example example;
  for (Rank rank = 0; rank < 6; ++rank)
    EXPECT_EQ(example.box({"y", "x"}, rank).shape(), (Shape{3, 4}));
}

TEST(DistAttr, SeveralAxesOnOneDimCutOneAfterTheOther) {
  const MeshPtr mesh = mesh_of("dp=2 cp=3");
  const DistAttr attr = parse_spec("P((\"dp\",\"cp\"))", mesh, 1);
  // 10 = 5 + 5 over dp, and each 5 = 2 + 2 + 1 over cp.
  std::string boxes;
  for (Rank rank = 0; rank < 6; ++rank)
    boxes += to_text(attr.box({10}, *mesh->coordinate_of(rank)));
  EXPECT_EQ(boxes, "[0:2][2:4][4:5][5:7][7:9][9:10]");
  EXPECT_EQ(attr.largest_shape({10}), (Shape{2}));
}

TEST(DistAttr, PartsAreInProportionToTheWeightsOfTheirAxes) {
  const MeshPtr mesh = mesh_of("dp=2:1 tp=1:3");
  const DistAttr attr = from_spec(mesh, 2, {"dp", "tp"});
  // Rows 6 = 4 + 2, columns 8 = 2 + 6.
  std::string boxes;
  for (Rank rank = 0; rank < 4; ++rank)
    boxes += to_text(attr.box({6, 8}, *mesh->coordinate_of(rank)));
  EXPECT_EQ(boxes, "[0:4, 0:2][0:4, 2:8][4:6, 0:2][4:6, 2:8]");
  EXPECT_EQ(attr.largest_shape({6, 8}), (Shape{4, 6}));
  EXPECT_EQ(attr.local_shape({6, 8}, mesh->largest_shard_coordinate()), (Shape{4, 6}));
  EXPECT_EQ(attr.blocks(1), 4);
  EXPECT_EQ(attr.blocks_of_rank(1, 8).at({0, 1}), 6);
}

TEST(DistAttr, PartsMayBeEmpty) {
  const MeshPtr mesh = mesh_of("dp=4");
  const DistAttr attr = from_spec(mesh, 1, {"dp"});
  EXPECT_EQ(attr.box({2}, {3}).shape(), (Shape{0}));
}

TEST(DistAttr, ADimThatFusesSeveralIsCutBetweenUnits) {
  const MeshPtr mesh = mesh_of("tp=2");
  // Three units of four over two ranks: 8 and 4
  const DistType type = parse_dist_type("f32[12@tp:4]", mesh);
  EXPECT_EQ(to_text(type.attr.box(type.type.shape, {0})), "[0:8]");
  EXPECT_EQ(to_text(type.attr.box(type.type.shape, {1})), "[8:12]");
}

TEST(DistAttr, TextReadsBackTheSame) {
  const MeshPtr mesh = mesh_of("dp=2 tp=4 ep=2");
  for (const char* text :
       {"f32[32@dp, 4096@tp] {partial sum: ep}", "f32[]", "i32[8, 16@tp@dp]", "f32[512@tp:64]",
        "f32[4] {partial sum: dp, tp; max: ep}", "bool[6@ep, 3]"}) {
    const DistType type = parse_dist_type(text, mesh);
    EXPECT_EQ(to_text(type.type, type.attr), text);
  }
}

TEST(DistAttr, EveryNotationSaysTheSame) {
  const MeshPtr mesh = mesh_of("dp=2 tp=4");
  const DistAttr expected = parse_dist_type("f32[32@dp, 8, 64@tp]", mesh).attr;
  EXPECT_EQ(parse_spec("P(\"dp\", None, \"tp\")", mesh, 3), expected);
  EXPECT_EQ(parse_placements("Shard(0), Shard(2)", mesh, 3), expected);
  EXPECT_EQ(parse_placements("tp: Shard(2), dp: Shard(0)", mesh, 3), expected);
  EXPECT_EQ(from_placements(mesh, 3, {Shard(0), Shard(2)}), expected);
  EXPECT_EQ(from_parts(mesh, {2, 1, 4}), expected);
  EXPECT_EQ(expected.placements(), (std::vector{Shard(0), Shard(2)}));
}

TEST(DistAttr, PartsMayTakeSeveralAxes) {
  const MeshPtr mesh = mesh_of("dp=2 tp=4");
  EXPECT_EQ(to_text(from_parts(mesh, {8, 1})), "[@dp@tp, *]");
  EXPECT_EQ(to_text(from_parts(mesh, {4, 2})), "[@tp, @dp]");
}

TEST(DistAttr, PositionsDoNotCountTheAxisOfMicroBatches) {
  const MeshPtr mesh = mesh_of("mb=4 dp=2 tp=4");
  EXPECT_EQ(to_text(parse_placements("Shard(0), Shard(1)", mesh, 2)), "[@dp, @tp]");
  EXPECT_EQ(to_text(parse_placements("Replicate(), Shard(1)", mesh, 2)), "[*, @tp]");
  EXPECT_EQ(to_text(from_parts(mesh, {2, 4})), "[@dp, @tp]");
  EXPECT_EQ(to_text(from_parts(mesh, {8})), "[@dp@tp]");
  const auto refusal = [&](const auto& read) { return message_of(ExitCode::kBadConfig, read); };
  EXPECT_THAT(refusal([&] { parse_placements("Shard(0), Replicate(), Replicate()", mesh, 2); }),
              HasSubstr("there are more placements than the mesh has axes"));
  EXPECT_THAT(refusal([&] { from_parts(mesh, {16}); }), HasSubstr("on the mesh dp=2 tp=4\n"));
}

TEST(DistAttr, AnAxisIsPlacedOnce) {
  const MeshPtr mesh = mesh_of("dp=2 tp=4");
  for (const char* text : {"dp: Shard(0), dp: Shard(1)", "dp: Shard(0), Shard(1), dp: Replicate()",
                           "Shard(0), dp: Shard(1)"})
    EXPECT_THAT(message_of(ExitCode::kBadConfig, [&] { parse_placements(text, mesh, 2); }),
                HasSubstr("it places axis 'dp' twice"));
}

TEST(DistAttr, BracketsOfASpecMatch) {
  const MeshPtr mesh = mesh_of("dp=2 tp=4");
  for (const char* text : {"P(\"dp\"))", "P((\"dp\")", "P(\"dp\"), (\"tp\")"})
    EXPECT_THAT(message_of(ExitCode::kBadConfig, [&] { parse_spec(text, mesh, 2); }),
                HasSubstr("its brackets do not match"));
}

TEST(DistAttr, OpenDimsAreShown) {
  const MeshPtr mesh = mesh_of("dp=2 tp=4");
  EXPECT_EQ(to_text(parse_open_spec("P(?, \"tp\")", mesh, 3)), "[?, @tp, *]");
  EXPECT_EQ(to_text(parse_open_spec("P((\"dp\", ?))", mesh, 2)), "[@dp?, *]");
}

TEST(DistAttr, RefusesWithThreeParts) {
  const MeshPtr mesh = mesh_of("dp=2 tp=4");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [&] { parse_spec("P(\"dp\", \"dp\")", mesh, 2); }),
            "the mesh axis 'dp' is used twice for one tensor\n  why: an axis divides one dim of a "
            "tensor\n  fix: remove one of the two uses");
  EXPECT_EQ(
      message_of(ExitCode::kBadConfig, [&] { parse_placements("Shard(2), Replicate()", mesh, 2); }),
      "Shard(2) on axis 'dp' names a dim that is not there\n  why: the tensor has dims 0 to 1\n  "
      "fix: use one of its dims");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [&] { parse_spec("P(None, None, \"tp\")", mesh, 2); }),
            "a spec of 3 entries names a dim that is not there\n  why: the tensor has 2 dims\n  "
            "fix: give at most one entry a dim");
  EXPECT_EQ(message_of(ExitCode::kBadConfig, [&] { parse_dist_type("f32[8@cp]", mesh); }),
            "the mesh dp=2 tp=4 has no axis 'cp'\n  why: its axes are dp, tp\n  fix: use one of "
            "these, or add the axis to the mesh");
  EXPECT_EQ(
      message_of(ExitCode::kBadConfig, [&] { from_parts(mesh, {3}); }),
      "no dim can be cut into 3 parts here on the mesh dp=2 tp=4\n  why: the parts of a dim are "
      "a product of axes that no other dim uses\n"
      "  fix: use such a product, or 1 to leave the dim whole");
  EXPECT_EQ(
      message_of(ExitCode::kBadConfig, [&] { parse_placements("Split(0)", mesh, 2); }),
      "'Split(0)' is not a placement\n  why: 'Split(0)' is not one of Shard(dim), Replicate(), "
      "Partial(op)\n"
      "  fix: write it as Shard(0), Replicate() (one an axis) or tp: Shard(1), ep: Partial(sum)");
}

}  // namespace
}  // namespace tessera
