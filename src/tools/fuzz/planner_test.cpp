#include <gtest/gtest.h>

#include "base/error.h"
#include "tools/fuzz/fuzz.h"
#include "tools/fuzz/internal/planned_case.h"

namespace tessera::fuzz {
namespace {

// Whatever plan is found for a program on whatever devices, it computes what the serial program
// computes; it fits; and nothing that was compared is faster.
/// Plans `cases` programs. Of 2,000 at least 200 have a searched plan, 50 a preset, 20 none, and
/// 200 an excluded candidate.
void plan_programs(int cases) {
  std::string failures;
  FuzzOptions options;
  options.cases = cases;
  options.plans = true;
  options.on_failure = [&](const FuzzFinding& finding) { failures += to_text(finding) + "\n"; };
  const FuzzReport report = run_cases(options);
  EXPECT_EQ(failures, "");
  EXPECT_GE(report.planned.searched, cases / 10);
  EXPECT_GE(report.planned.presets, cases / 40);
  EXPECT_GE(report.planned.none, cases / 100);
  EXPECT_GE(report.planned.excluded, cases / 10);
}

TEST(FuzzPlanner, ThreeHundredPlannedProgramsComputeWhatTheSerialProgramComputes) {
  plan_programs(300);
}

TEST(FuzzPlannerSoak, TwoThousandPlannedProgramsComputeWhatTheSerialProgramComputes) {
  plan_programs(2000);
}

/// A value is divided in windows of all its rows, and its reader takes the rows of a micro-batch.
TEST(FuzzPlanner, AReshardFromWindowsOfAllRowsToThoseOfAMicroBatchHasAPrice) {
  std::string failures;
  FuzzOptions options;
  options.cases = 1;
  options.seed = 271777;
  options.plans = true;
  options.on_failure = [&](const FuzzFinding& finding) { failures += to_text(finding) + "\n"; };
  EXPECT_EQ(run_cases(options).planned.searched, 1);
  EXPECT_EQ(failures, "");
}

TEST(FuzzPlanner, ASeedAlwaysMakesTheSameCluster) {
  EXPECT_EQ(random_cluster(3).description(), random_cluster(3).description());
  EXPECT_FALSE(random_cluster(3).description() == random_cluster(4).description());
}

TEST(FuzzPlanner, AFailureIsRepeatedWithTheOption) {
  FuzzOptions options;
  options.cases = 3;
  options.plans = true;
  options.max_failures = 1;
  std::string text;
  options.on_failure = [&](const FuzzFinding& finding) { text = to_text(finding); };
  options.faults.tamper = [](TaskGraph&) { throw InternalError("a planted fault"); };
  run_cases(options);
  EXPECT_NE(text.find("tessera fuzz --planner --cases 1 --seed 1\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera::fuzz
