#include "tools/cli/internal/print/plan/notes.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Kind = ShardingNote::Kind;

TEST(Notes, OfEachKindTheFirstIsSummarizedAndTheOthersAreCounted) {
  EXPECT_EQ(notes_summary({{Kind::kReshard, "a", "first reshard"},
                           {Kind::kConflict, "b", "first conflict"},
                           {Kind::kReshard, "c", "second reshard"},
                           {Kind::kReshard, "d", "third reshard"}}),
            "note: conflict: first conflict\n"
            "note: reshard: first reshard\n"
            "note: 2 more notes like these; `tessera explain --full` prints all\n");
}

TEST(Notes, AreNoLineWhereThereAreNone) {
  EXPECT_EQ(notes_summary({}), "");
  EXPECT_EQ(notes_table({}, {}), "");
  EXPECT_EQ(notes_summary({{Kind::kFallback, "a", "whole"}}), "note: fallback: whole\n");
}

}  // namespace
}  // namespace tessera
