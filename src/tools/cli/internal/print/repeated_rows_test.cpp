#include "tools/cli/internal/print/repeated_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;

/// Layers of one op each, in scopes "LAYER.0", "LAYER.1", ...
Graph repeated_rows_layers(int count) {
  std::string text = "input x: f32[4]\n", before = "x";
  for (int i = 0; i < count; ++i) {
    const std::string name = "blocks." + std::to_string(i) + ".relu";
    text += name + " = relu(" + before + "): f32[4]\n";
    before = name;
  }
  return parse_graph(text);
}

std::vector<TableRow> rows_of_layers(int begin, int end, const std::string& bytes) {
  std::vector<TableRow> rows;
  for (int i = begin; i < end; ++i)
    rows.push_back({"blocks." + std::to_string(i) + ".relu", bytes,
                    "op 'clip.blocks." + std::to_string(i) + ".sum' needs it"});
  return rows;
}

TEST(RepeatedRows, ThatDifferInTheLayerAloneAreOneWithTheirNumber) {
  const RepeatedRows repeated(repeated_rows_layers(12));
  EXPECT_THAT(repeated.joined(rows_of_layers(0, 12, "4 B"), 0),
              ElementsAre(ElementsAre("blocks.{0..11}.relu  x12", "4 B",
                                      "op 'clip.blocks.{0..11}.sum' needs it")));
}

TEST(RepeatedRows, WithOtherCellsStayApart) {
  const RepeatedRows repeated(repeated_rows_layers(12));
  std::vector<TableRow> rows = rows_of_layers(0, 12, "4 B");
  rows[3][1] = "8 B";
  rows.insert(rows.begin() + 5, {"head", "4 B", "op 'loss' needs it"});
  EXPECT_THAT(repeated.joined(rows, 0),
              ElementsAre(ElementsAre("blocks.{0..2,4..11}.relu  x11", "4 B",
                                      "op 'clip.blocks.{0..2,4..11}.sum' needs it"),
                          ElementsAre("blocks.3.relu", "8 B", "op 'clip.blocks.3.sum' needs it"),
                          ElementsAre("head", "4 B", "op 'loss' needs it")));
}

TEST(RepeatedRows, MayMentionSeveralLayers) {
  const RepeatedRows repeated(repeated_rows_layers(8));
  EXPECT_THAT(
      repeated.joined({{"blocks.0.relu", "blocks.1.relu"}, {"blocks.1.relu", "blocks.2.relu"}}, 0),
      ElementsAre(ElementsAre("blocks.{0,1}.relu  x2", "blocks.{1,2}.relu")));
}

TEST(RepeatedRows, MayReadNamesThatOnlyANumberTellsApart) {
  const RepeatedRows repeated(repeated_rows_layers(8));
  EXPECT_THAT(
      repeated.joined(
          {{"blocks.0.relu", "'sum_1'"}, {"blocks.1.relu", "'sum_7'"}, {"head", "'sum_8'"}}, 0),
      ElementsAre(ElementsAre("blocks.{0,1}.relu  x2", "'sum_*'"), ElementsAre("head", "'sum_8'")));
  // Two results of one layer are not alike.
  EXPECT_THAT(repeated.joined({{"blocks.0.sum_1"}, {"blocks.0.sum_2"}, {"x_1"}, {"x_2"}}, 0),
              ElementsAre(ElementsAre("blocks.0.sum_1"), ElementsAre("blocks.0.sum_2"),
                          ElementsAre("x_1"), ElementsAre("x_2")));
}

TEST(RepeatedRows, OfTwoLayersAreJoinedToo) {
  EXPECT_THAT(RepeatedRows(repeated_rows_layers(2)).joined(rows_of_layers(0, 2, "4 B"), 0),
              ElementsAre(ElementsAre("blocks.{0,1}.relu  x2", "4 B",
                                      "op 'clip.blocks.{0,1}.sum' needs it")));
}

TEST(RepeatedRows, OfOneLayerOrOfNoneAreLeft) {
  const std::vector<TableRow> rows = rows_of_layers(0, 7, "4 B");
  EXPECT_EQ(RepeatedRows(repeated_rows_layers(1)).joined(rows, 0), rows);
  EXPECT_EQ(RepeatedRows().joined(rows, 0), rows);
  // Equal rows without a layer are as many as they were.
  EXPECT_EQ(RepeatedRows(repeated_rows_layers(8)).joined({{"head"}, {"head"}}, 0),
            (std::vector<TableRow>{{"head"}, {"head"}}));
}

TEST(RepeatedRows, OfAGroupAreNamed) {
  std::vector<TableRow> rows = rows_of_layers(0, 2, "4 B");
  rows.insert(rows.begin() + 1, {"head", "8 B", ""});
  const std::vector<JoinedRow> groups = RepeatedRows(repeated_rows_layers(2)).groups(rows);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].members, ElementsAre(0u, 2u));
  EXPECT_THAT(groups[1].members, ElementsAre(1u));
}

}  // namespace
}  // namespace tessera
