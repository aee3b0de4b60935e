// Ranks that behave alike are simulated once, and nothing but the work changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/clock/testing/machine_demands.h"
#include "simulator/clock/testing/symmetry_check.h"
#include "task_graph/tasks/testing/hand_made.h"
#include "task_graph/tasks/testing/random_program.h"

namespace tessera {
namespace {

using testing::ElementsAre;

/// On dp=4, tp=2: y is made of x, summed over tp, and gathered over dp.
std::shared_ptr<const TaskGraph> eight_ranks() {
  HandMade made(std::make_shared<Mesh>(parse_mesh("dp=4,tp=2")));
  const RegisterIndex x = made.input("x", "f32[64@dp, 64@tp]");
  const KernelCall twice{"scalar.mul", {}, {2}, ""};
  const RegisterIndex y = made.compute("y", twice, {x}, "f32[64@dp, 64@tp]");
  const RegisterIndex gathered = made.exchange("gather tp", y, "f32[64@dp, 64]");
  const RegisterIndex z = made.compute("z", twice, {gathered}, "f32[64@dp, 64]");
  made.result("all", made.exchange("gather dp", z, "f32[64, 64]"));
  return std::make_shared<const TaskGraph>(made.finish());
}

/// By rank, the rank that is simulated for it.
std::vector<Rank> representatives(const Demands& demands, const SimulateOptions& options = {}) {
  SimulateOptions folding = options;
  folding.uses_rank_symmetry = true;
  std::vector<Rank> list;
  for (const RankTimes& times : simulate(eight_ranks(), demands, folding).ranks)
    list.push_back(times.representative);
  return list;
}

TEST(RankSymmetry, RanksWithTheSameDemandsAreOneClass) {
  const auto graph = eight_ranks();
  EXPECT_THAT(representatives(machine_demands(*graph, {})), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(RankSymmetry, RanksThatTakeLongerAreAnotherClass) {
  // tp is the inner axis: even ranks have coordinate 0.
  const auto graph = eight_ranks();
  EXPECT_THAT(representatives(machine_demands(*graph, {.slow_axis = 1})),
              ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

TEST(RankSymmetry, AStragglerSplitsThoseWhoWaitForItFromThoseWhoWaitForThem) {
  // Rank 3 exchanges over tp with rank 2, and over dp with ranks 1, 5 and 7, whose partners over tp
  // are 0, 4 and 6. Ranks 0 and 1 are on the machine of rank 3.
  const auto graph = eight_ranks();
  EXPECT_THAT(representatives(machine_demands(*graph, {}), {.stragglers = {{3, 2}}}),
              ElementsAre(0, 1, 2, 3, 4, 5, 4, 5));
}

TEST(RankSymmetry, AnotherLinkSplitsTheClass) {
  const auto graph = eight_ranks();
  Demands demands = machine_demands(*graph, {});
  demands.resources[ResourceId(2)].capacity /= 2;  // out of the first machine
  EXPECT_THAT(representatives(demands), ElementsAre(0, 0, 0, 0, 4, 4, 4, 4));
}

TEST(RankSymmetry, RanksWithJitterAreEachOnTheirOwn) {
  const auto graph = eight_ranks();
  Demands demands = machine_demands(*graph, {});
  demands.jitter = [](Rank rank, TaskId) { return rank < 4 ? 0.1 : 0; };
  EXPECT_THAT(representatives(demands), ElementsAre(0, 1, 2, 3, 4, 5, 4, 5));
}

TEST(RankSymmetry, ARankThatReceivesFromItselfIsNotLikeThoseThatWaitForMessages) {
  // From ranks 0, 1, 2 to ranks 0, 2, 1: rank 0 keeps its part, the others swap theirs.
  const auto mesh = [](std::vector<Rank> ranks) {
    return std::make_shared<Mesh>(Shape{3}, std::vector<std::string>{"dp"}, std::move(ranks));
  };
  HandMade made(mesh({0, 1, 2}));
  const RegisterIndex x = made.input("x", "f32[3@dp]");
  made.place_on(mesh({0, 2, 1}));
  made.result("y", made.exchange("swap", x, "f32[3@dp]"));
  const auto graph = std::make_shared<const TaskGraph>(made.finish());
  const Demands demands{.demand = [](Rank, TaskId) { return ActDemand{1000, {}}; }};
  const SymmetryCheck check =
      check_symmetry(graph, demands, {.barrier_between_steps = false, .message = Seconds(5e-6)});
  EXPECT_EQ(check.difference, "");
  EXPECT_EQ(check.simulated, 2);
}

TEST(RankSymmetry, TheTimesAreThoseOfAllRanks) {
  const auto graph = eight_ranks();
  for (int slow_axis : {-1, 0, 1})
    for (int ranks_per_machine : {1, 2, 3, 4, 8})
      for (bool barrier : {true, false})
        for (const std::vector<Straggler>& stragglers :
             {std::vector<Straggler>{}, std::vector<Straggler>{{5, 1.5}}}) {
          const Demands demands = machine_demands(
              *graph, {.ranks_per_machine = ranks_per_machine, .slow_axis = slow_axis});
          const SymmetryCheck check = check_symmetry(graph, demands,
                                                     {.barrier_between_steps = barrier,
                                                      .message = Seconds(3e-7),
                                                      .stragglers = stragglers});
          EXPECT_EQ(check.difference, "") << slow_axis << " " << ranks_per_machine;
        }
}

TEST(RankSymmetry, TwentyRandomPlansOfSixteenRanksTakeTheTimesOfAllRanks) {
  int ranks = 0, simulated = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto graph =
        random_programs::RandomProgram(seed, {.ranks = 16, .meshes = 2, .works = 8}).graph();
    for (int variant = 0; variant < 8; ++variant) {
      const Demands demands = machine_demands(
          *graph, {.ranks_per_machine = 1 + variant % 4 * 5, .slow_axis = variant % 3 - 1});
      const SymmetryCheck check = check_symmetry(graph, demands,
                                                 {.barrier_between_steps = variant % 2 == 0,
                                                  .message = Seconds(variant < 4 ? 0 : 2e-7),
                                                  .prefetch_exchanges = variant >= 4});
      EXPECT_EQ(check.difference, "")
          << "RandomProgram(" << seed << ", 16 ranks), variant " << variant;
      ranks += check.ranks;
      simulated += check.simulated;
    }
  }
  EXPECT_LT(simulated,
            ranks);  // otherwise no rank was represented by another, and the test says nothing
  RecordProperty("simulated", simulated);
  RecordProperty("ranks", ranks);
}

}  // namespace
}  // namespace tessera
