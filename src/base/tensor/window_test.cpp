// Windows: the range of one dim that a part of another dim needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/tensor/split.h"

namespace tessera {
namespace {

using testing::ElementsAre;

/// The range that each of `parts` balanced parts needs.
std::vector<Range> windows_of(const Window& window, int64_t parts) {
  const Split split{window.from, 1, {{0, parts}}, {window}};
  std::vector<Range> ranges;
  for (int64_t i = 0; i < parts; ++i) ranges.push_back(split.range_at({i}));
  return ranges;
}

TEST(Window, OfASliceFollowsItsStartAndStride) {
  // y = x[2:9:3] has rows 2, 5 and 8 of 10: the first part makes y0 and y1 from rows 2 to 5, the
  // second makes y2 from row 8.
  EXPECT_THAT(windows_of({3, 10, 3, 1, 2, 2}, 2), ElementsAre(Range{2, 6}, Range{8, 9}));
}

TEST(Window, OfAPadEndsWhereTheOperandEnds) {
  // There are three zeros, four elements, three zeros: parts of 4, 3 and 3 need element 0, elements
  // 1 to 3, and none.
  EXPECT_THAT(windows_of({10, 4, 1, 1, -3, -3}, 3),
              ElementsAre(Range{0, 1}, Range{1, 4}, Range{4, 4}));
}

TEST(Window, OfAConvolutionOverlapsAndIsCutAtTheBorders) {
  // Kernel 3 with one zero of padding on either side: row o of y needs rows o - 1 to o + 1 of x.
  EXPECT_THAT(windows_of({8, 8, 1, 1, -1, 1}, 3),
              ElementsAre(Range{0, 4}, Range{2, 7}, Range{5, 8}));
  // Stride 2, kernel 3, padding 1: rows 2o - 1 to 2o + 1 of 8.
  EXPECT_THAT(windows_of({4, 8, 2, 1, -1, 1}, 2), ElementsAre(Range{0, 4}, Range{3, 8}));
  // Dilation 2, kernel 3, padding 2: rows o - 2 to o + 2.
  EXPECT_THAT(windows_of({6, 6, 1, 1, -2, 2}, 3),
              ElementsAre(Range{0, 4}, Range{0, 6}, Range{2, 6}));
}

TEST(Window, OfTheGradientOfAStridedConvolutionRoundsInwards) {
  // Stride 2, kernel 3, padding 1, 8 rows of x and 4 of y: row i of x contributes to the rows o
  // with i - 1 <= 2o <= i + 1. Rows 0 to 2 contribute to o = 0 and 1 (2o <= 3), rows 3 to 5 to 1 to
  // 3 (2 <= 2o <= 6), rows 6 and 7 to 3 (5 <= 2o <= 8, and there are 4).
  EXPECT_THAT(windows_of({8, 4, 1, 2, -1, 1}, 3),
              ElementsAre(Range{0, 2}, Range{1, 4}, Range{3, 4}));
}

TEST(Window, OfAnEmptyPartIsEmpty) {
  EXPECT_THAT(windows_of({2, 4, 1, 1, -1, 2}, 3),
              ElementsAre(Range{0, 3}, Range{0, 4}, Range{1, 1}));
}

TEST(Window, SeesWhatItsIndicesSee) {
  // All windows with small numbers: the range is from the least to the greatest index that any
  // index of the part needs.
  for (int64_t num : {1, 2, 3})
    for (int64_t den : {1, 2, 3})
      for (int64_t before : {-4, -1, 0, 2})
        for (int64_t width : {0, 1, 3}) {
          const Window window{7, 9, num, den, before, before + width};
          for (int64_t begin = 0; begin < 7; ++begin)
            for (int64_t end = begin + 1; end <= 7; ++end) {
              const Range range = window.apply({begin, end});
              for (int64_t o = begin; o < end; ++o)
                for (int64_t i = 0; i < 9; ++i) {
                  const bool seen =
                      num * o + window.before <= den * i && den * i <= num * o + window.after;
                  ASSERT_TRUE(!seen || (range.begin <= i && i < range.end))
                      << to_text(window) << " of " << begin << ":" << end;
                }
              // Its ends are needed, or are between the needs of neighbours or beyond the dim.
              ASSERT_LE(range.size(), (num * (end - 1 - begin) + width) / den + 1)
                  << to_text(window);
            }
        }
}

TEST(Split, TheLargestWindowNeedNotBeTheFirst) {
  // Parts of 3, 3 and 2 of 8 with a row on either side need 4, 5 and 3 rows.
  EXPECT_EQ((Split{8, 1, {{0, 3}}, {{8, 8, 1, 1, -1, 1}}}.largest()), 5);
  // With a pad by 9 in front, only the last parts need anything.
  EXPECT_EQ((Split{12, 1, {{0, 2}, {1, 2}}, {{12, 3, 1, 1, -9, -9}}}.largest()), 3);
}

TEST(Split, AWindowOfAWindowIsRecomputed) {
  // Two convolutions of kernel 3 without padding, 12 rows to 10 to 8: parts of 4 need 6 and 8 rows.
  const Split split{8, 1, {{0, 2}}, {{8, 10, 1, 1, 0, 2}, {10, 12, 1, 1, 0, 2}}};
  EXPECT_EQ(split.range_at({0}), (Range{0, 8}));
  EXPECT_EQ(split.range_at({1}), (Range{4, 12}));
  EXPECT_EQ(split.whole(), 12);
}

TEST(LocalInt, IsASumOfBeginsAndSizes) {
  const Split rows{10, 1, {{0, 4}}};  // [0:3] [3:6] [6:8] [8:10]
  const Split window{10, 1, {{0, 4}}, {{10, 10, 1, 1, -1, 1}}};
  // The begin of the window, counted from the row before the part: at the border one row is
  // missing.
  const LocalInt missing = LocalInt(1) + LocalInt::begin_of(window) - LocalInt::begin_of(rows);
  EXPECT_EQ(missing.at({0}), 1);
  EXPECT_EQ(missing.at({2}), 0);
  EXPECT_EQ((3 * LocalInt::size_of(rows) + 1).at({2}), 7);
  EXPECT_TRUE((LocalInt(5) - LocalInt::begin_of(Split{4, 1, {}})).is_constant());
}

}  // namespace
}  // namespace tessera
