#include "tools/cli/internal/print/plan/plan_search_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Parts of a step in milliseconds.
EvaluatedCandidate plan_search_text_candidate(const char* mesh, double compute, const char* axes,
                                              double exposed, double idle) {
  EvaluatedCandidate made;
  made.candidate.plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh)));
  made.parts.compute = Seconds(1e-3 * compute);
  made.parts.exposed[axes] = Seconds(1e-3 * exposed);
  made.parts.idle = Seconds(1e-3 * idle);
  made.prediction.step = Seconds(1e-3 * (compute + exposed + idle));
  return made;
}

TEST(DifferenceText, ExchangesOfOtherAxesAreOneTerm) {
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const EvaluatedCandidate best = plan_search_text_candidate("x=4", 10, "x", 3, 0);
  EXPECT_EQ(
      difference_text(cluster, plan_search_text_candidate("dp=2 tp=2", 12, "dp,tp", 4, 1), best),
      "+4 ms: compute +2, exchanges +1, waits +1");
  EXPECT_EQ(difference_text(cluster, plan_search_text_candidate("tp=4", 12, "tp", 3, 0), best),
            "+2 ms: compute +2");
}

TEST(DifferenceText, OnSeveralMachinesExchangesBetweenThemStandApart) {
  const Cluster cluster = parse_cluster_line("2x2xa100-80g;ib=100Gb");
  const EvaluatedCandidate best = plan_search_text_candidate("x=2 y=2", 10, "x", 3, 0);
  EXPECT_EQ(difference_text(cluster, plan_search_text_candidate("dp=2 tp=2", 10, "tp", 4, 0), best),
            "+1 ms: exchanges within machines +4, exchanges between machines -3");
  EXPECT_EQ(difference_text(cluster, plan_search_text_candidate("tp=4", 10, "tp", 4, 0), best),
            "+1 ms: exchanges between machines +1");
}

TEST(DifferenceText, SmallTermsAreLeftOut) {
  const Cluster cluster = parse_cluster_line("4xa100-80g");
  const EvaluatedCandidate best = plan_search_text_candidate("x=4", 10, "x", 3, 0);
  EXPECT_EQ(difference_text(cluster, plan_search_text_candidate("tp=4", 20, "tp", 3.1, 0), best),
            "+10.1 ms: compute +10");
  EXPECT_EQ(difference_text(cluster, best, best), "");
}

TEST(RankingText, VariantsOfOneStepAreOneRow) {
  Planned planned;
  planned.unit = "token";
  planned.cluster = std::make_shared<const Cluster>(parse_cluster_line("4xa100-80g"));
  const std::pair<const char*, double> candidates[] = {{"stages 2, zb-v (3)", 10},
                                                       {"stages 2, zb-v (4)", 10.002},
                                                       {"stages 2, zb-v", 10.003},
                                                       {"stages 2, zb-v (6)", 10.5},
                                                       {"stages 2, zb-h1 (2)", 10.6}};
  for (const auto& [name, compute] : candidates) {
    planned.result.candidates.push_back(plan_search_text_candidate("x=4", compute, "x", 0, 0));
    planned.result.candidates.back().candidate.name = name;
  }
  planned.result.best = 0;
  const std::string text = ranking_text(planned);
  EXPECT_THAT(text, HasSubstr("stages 2, zb-v (3) ")) << "the best plan has a row of its own";
  EXPECT_THAT(text, HasSubstr("stages 2, zb-v, 2 variants "));
  EXPECT_THAT(text, Not(HasSubstr("(4)")));
  EXPECT_THAT(text, HasSubstr("stages 2, zb-v (6) ")) << "it takes longer";
  EXPECT_THAT(text, HasSubstr("stages 2, zb-h1 (2) "));
}

TEST(RankingTables, HaveALogOfTheSearch) {
  Planned planned;
  planned.unit = "token";
  planned.cluster = std::make_shared<const Cluster>(parse_cluster_line("4xa100-80g"));
  planned.result.candidates = {plan_search_text_candidate("x=4", 10, "x", 3, 0)};
  planned.result.best = 0;
  planned.result.excluded = {{Candidate::Source::kPreset, "dp=4", 4, Seconds(1)}};
  planned.result.left_out = 7;
  const std::vector<ReportedTable> tables = ranking_tables(planned);
  const auto search = std::ranges::find(tables, "Search", &ReportedTable::title);
  ASSERT_NE(search, tables.end());
  ASSERT_EQ(search->rows.size(), 3u);
  EXPECT_EQ(search->rows[0][1], "1");
  EXPECT_EQ(search->rows[1][0], "excluded");
  EXPECT_EQ(search->rows[2][1], "7");
}

TEST(VerdictLine, NamesTheCoresThatRanksShare) {
  Planned planned;
  planned.unit = "token";
  planned.result.candidates = {plan_search_text_candidate("x=9", 10, "x", 0, 0)};
  planned.result.best = 0;
  planned.cluster = std::make_shared<const Cluster>(parse_cluster_line("cpu:4"));
  EXPECT_THAT(verdict_line(planned), HasSubstr(" with 9 ranks on 4 cores: 10 ms a step, "));
  planned.cluster = std::make_shared<const Cluster>(parse_cluster_line("cpu:9"));
  EXPECT_THAT(verdict_line(planned), HasSubstr(" on 9 devices: 10 ms a step, "));
}

TEST(VerdictLine, NamesTheDeviceThatTheSpeedIsComparedWithWhereDevicesDiffer) {
  Planned planned;
  planned.unit = "token";
  planned.result.candidates = {plan_search_text_candidate("x=2", 10, "x", 0, 0),
                               plan_search_text_candidate("x=1", 21, "x", 0, 0)};
  planned.result.candidates.back().candidate.source = Candidate::Source::kOneDevice;
  planned.result.candidates.front().candidate.source = Candidate::Source::kSearch;
  planned.result.best = 0;
  planned.cluster = std::make_shared<const Cluster>(parse_cluster_line("1x1xp100+1x1xa100-80g"));
  EXPECT_THAT(verdict_line(planned), HasSubstr("; 2.1 times one p100\n"));
  planned.cluster = std::make_shared<const Cluster>(parse_cluster_line("2xa100-80g"));
  EXPECT_THAT(verdict_line(planned), HasSubstr("; 2.1 times one device\n"));
}

TEST(PlanSearchNotes, SayThatADeviceHasSeveralStages) {
  Planned planned;
  planned.cluster = std::make_shared<const Cluster>(parse_cluster_line("4xa100-80g"));
  planned.graph = std::make_shared<const Graph>();
  planned.result.candidates = {plan_search_text_candidate("x=4", 10, "x", 0, 0)};
  planned.result.best = 0;
  EXPECT_THAT(plan_search_notes(planned), testing::IsEmpty());
  Plan& plan = planned.result.candidates[0].candidate.plan;
  plan.meshes.clear();
  for (const int stage : {0, 1, 2, 3}) {
    const Rank first = 2 * (stage % 2);
    plan.meshes.push_back({"stage" + std::to_string(stage),
                           std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"dp"},
                                                        std::vector<Rank>{first, first + 1})});
  }
  EXPECT_THAT(plan_search_notes(planned),
              testing::ElementsAre(
                  "2 groups of devices have 4 stages, 2 each; pp is the number of groups"));
}

TEST(ProblemText, SaysWhatTheBoundIsOf) {
  Planned planned;
  planned.result.candidates = {plan_search_text_candidate("x=4", 10, "x", 3, 0)};
  planned.result.best = 0;
  EXPECT_EQ(problem_text(planned), "") << "it is not of the search";
  planned.result.candidates[0].candidate.problem =
      SearchedProblem{.time = Seconds(10e-3), .bound = Seconds(9.9e-3), .dropped_strategies = 1200};
  // 9.9 of 10 is 1% less. The step of 13 ms is another number.
  EXPECT_EQ(
      problem_text(planned),
      "search problem: its best plan takes 10 ms, and none takes less than 9.9 ms (gap 1%), "
      "with kernels and exchanges one after the other; the step above overlaps them. The "
      "bound holds for the strategies of this mesh (1,200 left out), not for other meshes and "
      "pipelines\n");
}

// 4e7 operations on four devices of 1e9 a second take 10 ms. 8 parameters are 32 bytes, and 64 of
// 1e5 bytes a second on each of four devices take 0.16 ms.
TEST(FloorText, SaysWhatNoPlanIsBelow) {
  ClusterDescription description = parse_cluster_line("4xa100-80g").description();
  description.types.front().cost = DeviceCost();
  description.types.front().cost.flops_per_second = 1e9;
  description.types.front().cost.bytes_per_second = 1e5;
  Planned planned;
  planned.cluster = std::make_shared<const Cluster>(description);
  planned.graph = std::make_shared<const Graph>(
      parse_graph("input x: f32[8]\n"
                  "variable w: f32[8] = constant(0.0)\n"
                  "output x = x\n"
                  "smaller = mul_scalar(w) {value=0.5}: f32[8] @optimizer\n"
                  "next w = smaller\n"));
  planned.constraints.ranks = 4;
  planned.result.candidates = {plan_search_text_candidate("x=4", 10, "x", 15, 0)};
  planned.result.candidates.front().candidate.source = Candidate::Source::kSearch;
  planned.result.best = 0;
  EXPECT_EQ(floor_text(planned), "") << "one device is not known";
  planned.result.candidates.push_back(plan_search_text_candidate("x=1", 40, "x", 0, 0));
  EvaluatedCandidate& one = planned.result.candidates.back();
  one.candidate.source = Candidate::Source::kOneDevice;
  one.prediction.executed = Flops(4e7);
  planned.result.candidates.front().prediction.step = Seconds(25e-3);
  EXPECT_EQ(floor_text(planned),
            "Lower bound: 10 ms (compute roofline of 4 devices, no communication). Best plan: 2.5x "
            "the bound.\n");
  one.prediction.executed = Flops(4);
  EXPECT_EQ(
      floor_text(planned),
      "Lower bound: 0.16 ms (memory roofline of 4 devices, no communication). Best plan: 156x "
      "the bound.\n");
  planned.constraints.ranks = 9;
  EXPECT_THAT(floor_text(planned), HasSubstr("roofline of 4 devices")) << "shared";
}

}  // namespace
}  // namespace tessera
