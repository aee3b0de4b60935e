#include "training/checkpoint/internal/box_runs.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tessera {
namespace {

std::vector<std::vector<int64_t>> walk(BoxRuns runs) {
  std::vector<std::vector<int64_t>> found;
  for (; !runs.done(); runs.next())
    found.push_back({runs.run().from, runs.run().to, runs.run().bytes});
  return found;
}

TEST(BoxRuns, ColumnsAreOneRunARow) {
  const Box from{{{0, 3}, {0, 4}}}, to{{{0, 3}, {2, 4}}};
  // Row r begins at byte 16 r in the source and at 8 r in the target; column 2 is 8 bytes into it.
  EXPECT_EQ(walk(BoxRuns(from, to, to, 4)),
            (std::vector<std::vector<int64_t>>{{8, 0, 8}, {24, 8, 8}, {40, 16, 8}}));
}

TEST(BoxRuns, RowsAreOneRun) {
  const Box from{{{2, 7}, {0, 4}}}, to{{{0, 9}, {0, 4}}}, common{{{3, 6}, {0, 4}}};
  // Row 3 is row 1 of the source (byte 16) and row 3 of the target (byte 48); there are three rows
  // of 16 bytes.
  EXPECT_EQ(walk(BoxRuns(from, to, common, 4)), (std::vector<std::vector<int64_t>>{{16, 48, 48}}));
}

TEST(BoxRuns, AScalarIsOneElementAndAnEmptyBoxNothing) {
  EXPECT_EQ(walk(BoxRuns(Box{}, Box{}, Box{}, 4)), (std::vector<std::vector<int64_t>>{{0, 0, 4}}));
  const Box whole{{{0, 3}}};
  EXPECT_TRUE(walk(BoxRuns(whole, whole, Box{{{2, 2}}}, 4)).empty());
}

/// The byte offsets of the elements of `common` in a dense box, in row-major order.
std::vector<int64_t> places(const Box& box, const Box& common, int64_t element) {
  std::vector<int64_t> found;
  for (int64_t i = common.ranges[0].begin; i < common.ranges[0].end; ++i)
    for (int64_t j = common.ranges[1].begin; j < common.ranges[1].end; ++j)
      for (int64_t k = common.ranges[2].begin; k < common.ranges[2].end; ++k) {
        const Shape shape = box.shape();
        found.push_back(
            (((i - box.ranges[0].begin) * shape[1] + j - box.ranges[1].begin) * shape[2] + k -
             box.ranges[2].begin) *
            element);
      }
  return found;
}

TEST(BoxRuns, RandomBoxesVisitEveryCommonElementOnceInOrder) {
  const RandomStream random(random_key(1, "runs"), 0);
  uint64_t draw = 0;
  const auto number = [&](int64_t below) {
    return static_cast<int64_t>(random.uniform(draw++) * static_cast<float>(below));
  };
  for (int trial = 0; trial < 300; ++trial) {
    Box from, to;
    for (int d = 0; d < 3; ++d) {
      from.ranges.push_back({number(3), 3 + number(4)});
      to.ranges.push_back({number(3), 3 + number(4)});
    }
    const Box common = intersect(from, to);
    std::vector<int64_t> found_from, found_to;
    for (BoxRuns runs(from, to, common, 4); !runs.done(); runs.next())
      for (int64_t byte = 0; byte < runs.run().bytes; byte += 4) {
        found_from.push_back(runs.run().from + byte);
        found_to.push_back(runs.run().to + byte);
      }
    EXPECT_EQ(found_from, places(from, common, 4)) << to_text(from) << to_text(to);
    EXPECT_EQ(found_to, places(to, common, 4)) << to_text(from) << to_text(to);
  }
}

}  // namespace
}  // namespace tessera
