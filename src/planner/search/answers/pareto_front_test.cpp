#include "planner/search/answers/pareto_front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;

/// A plan of one rank with a step in seconds and an arena in bytes, of 100 that its device has.
EvaluatedCandidate candidate(double step, int64_t arena) {
  EvaluatedCandidate made;
  made.candidate.plan = serial_plan();
  made.prediction.step = Seconds(step);
  RankMemoryNeed memory;
  memory.arena = Bytes(arena);
  memory.capacity = Bytes(100);
  made.prediction.memory = {memory};
  made.fullest.memory = memory;
  return made;
}

std::vector<size_t> front_of(std::vector<EvaluatedCandidate> candidates, int ranks = 1) {
  PlanSearchResult result;
  result.candidates = std::move(candidates);
  return pareto_front(result, constraints_of(ranks, false));
}

TEST(ParetoFront, HasWhatNoOtherBeatsInBoth) {
  EXPECT_THAT(front_of({candidate(1, 80), candidate(2, 90), candidate(3, 40), candidate(4, 60),
                        candidate(5, 10)}),
              ElementsAre(0, 2, 4));
}

TEST(ParetoFront, OfEqualOnesIsTheFirst) {
  EXPECT_THAT(front_of({candidate(1, 80), candidate(1, 80), candidate(2, 80)}), ElementsAre(0));
  EXPECT_THAT(front_of({candidate(1, 80), candidate(1, 30), candidate(2, 80)}), ElementsAre(1))
      << "the second has less memory and an equal step";
}

TEST(ParetoFront, LeavesOutWhatDoesNotFitOrObey) {
  EXPECT_THAT(front_of({candidate(1, 80), candidate(0.5, 101)}), ElementsAre(0));
  EXPECT_THAT(front_of({candidate(1, 80)}, 2), ElementsAre()) << "it has one rank";
}

}  // namespace
}  // namespace tessera
