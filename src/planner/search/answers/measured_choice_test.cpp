#include "planner/search/answers/measured_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"

namespace tessera {
namespace {

/// What is found for a small network on four cores: one device, and presets of four ranks.
struct Found {
  PlanConstraints constraints = constraints_of(4, false);
  Graph graph = training_graph(network_of({.kind = "mlp", .context = 8, .layers = 2, .width = 64}),
                               {}, 16, 1);
  Cluster cluster = Cluster(parse_cluster_line("cpu:4").description());
  PlanSearchResult result =
      find_plan({graph, cluster}, {.constraints = constraints, .sources = {}, .excludes = false});
};

/// Measures the times in turn, and keeps the names.
struct Stub {
  std::vector<double> times;
  std::vector<std::string> names = {};

  void choose(Found& found, int64_t count) {
    choose_by_measurement(found.result, found.constraints, count,
                          [this](const EvaluatedCandidate& candidate) {
                            names.push_back(candidate.candidate.name);
                            return Seconds(times.at(names.size() - 1));
                          });
  }
};

std::vector<std::string> names_of_four_ranks(const Found& found) {
  std::vector<std::string> names;
  for (const EvaluatedCandidate& candidate : found.result.candidates)
    if (candidate.fits() && candidate.ranks() == 4) names.push_back(candidate.candidate.name);
  return names;
}

TEST(MeasuredChoice, TheFastestInMeasuredStepsIsTheBestPlan) {
  Found found;
  const std::vector<std::string> predicted = names_of_four_ranks(found);
  ASSERT_GE(predicted.size(), 3);
  Stub stub{{3, 1, 2}};
  stub.choose(found, 3);
  EXPECT_EQ(stub.names, std::vector<std::string>(predicted.begin(), predicted.begin() + 3));
  EXPECT_EQ(found.result.candidates.at(found.result.best.value()).candidate.name, predicted[1]);
  EXPECT_DOUBLE_EQ(found.result.measured.value().regret(), 2);  // 3 s instead of 1 s
}

TEST(MeasuredChoice, OfEqualStepsThePredictionDecidesAndThereIsNoRegret) {
  Found found;
  const std::optional<size_t> predicted = found.result.best;
  Stub stub{{1, 1}};
  stub.choose(found, 2);
  EXPECT_EQ(found.result.best, predicted);
  EXPECT_EQ(found.result.measured.value().regret(), 0);
}

TEST(MeasuredChoice, OfOneCandidateThatOneIsTheBestPlan) {
  Found found;
  const std::optional<size_t> predicted = found.result.best;
  Stub stub{{5}};
  stub.choose(found, 1);
  EXPECT_EQ(found.result.best, predicted);
  EXPECT_EQ(found.result.measured.value().candidates.size(), 1);
}

// One device does not obey the number of ranks, however fast it is.
TEST(MeasuredChoice, CandidatesThatDoNotObeyAreNotRun) {
  Found found;
  const std::vector<std::string> predicted = names_of_four_ranks(found);
  Stub stub{std::vector<double>(100, 1.0)};
  stub.choose(found, 100);
  EXPECT_EQ(stub.names, predicted);
}

TEST(MeasuredChoice, WhenNoPlanFitsNothingIsRun) {
  Found found;
  for (EvaluatedCandidate& candidate : found.result.candidates)
    for (RankMemoryNeed& memory : candidate.prediction.memory) memory.capacity = Bytes(0);
  found.result.best.reset();
  Stub stub{{}};
  stub.choose(found, 3);
  EXPECT_TRUE(stub.names.empty());
  EXPECT_FALSE(found.result.measured);
}

TEST(MeasuredChoice, AFailureOfARunIsThrown) {
  Found found;
  EXPECT_THROW(choose_by_measurement(found.result, found.constraints, 2,
                                     [](const EvaluatedCandidate&) -> Seconds {
                                       throw UserError("a rank failed", "it did", "repair it",
                                                       ExitCode::kBadConfig);
                                     }),
               UserError);
}

}  // namespace
}  // namespace tessera
