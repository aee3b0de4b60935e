#include "planner/search/sources/placement_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/solver/solve.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/preset.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/presets/presets.h"
#include "sharding/explicit/explicit_shardings.h"

namespace tessera {
namespace {

Graph placement_source_small_gpt(int64_t layers) {
  const Network network =
      network_of({.kind = "gpt", .context = 16, .layers = layers, .width = 32, .heads = 4});
  return training_graph(network, {}, 8, 1);
}

CostModel cost_on(const Cluster& cluster, const MeshPtr& mesh) {
  return cost_of(identity_mapping(cluster, mesh->size()), std::vector{mesh});
}

void expect_equal(const solver::Problem& a, const solver::Problem& b) {
  ASSERT_EQ(a.nodes(), b.nodes());
  ASSERT_EQ(a.edges(), b.edges());
  for (int i = 0; i < a.nodes(); ++i)
    EXPECT_TRUE(std::ranges::equal(a.costs(a.node(i)), b.costs(b.node(i)))) << i;
  for (int i = 0; i < a.edges(); ++i) {
    EXPECT_EQ(a.edge(i).a, b.edge(i).a);
    EXPECT_EQ(a.edge(i).b, b.edge(i).b);
    EXPECT_TRUE(std::ranges::equal(a.costs(a.edge(i)), b.costs(b.edge(i)))) << i;
  }
}

/// The problems of strategies that are shared are those that are made anew.
void expect_shared_strategies(const Graph& graph, const SharedDecisions& shared_decisions,
                              const MeshPtr& mesh, const CostModel& cost,
                              SearchProblemOptions options) {
  const auto strategies = std::make_shared<const MeshStrategies>(
      std::make_shared<const ClusteredGraph>(graph, shared_decisions, options), mesh, cost,
      options);
  std::set<std::string> bounds;
  for (double share : {0.0, 0.5, 1.0}) {
    options.overlap = share;
    const SearchProblem anew(graph, mesh, cost, shared_decisions, options),
        shared(strategies, share);
    expect_equal(anew.problem(), shared.problem());
    solver::SolveOptions how;
    how.work = 20;
    const solver::Answer result = solver::solve(shared.problem(), how);
    ASSERT_TRUE(result.cost.has_value());
    bounds.insert(std::to_string(solver::to_double(*result.cost)));
  }
  EXPECT_EQ(bounds.size(), 3U);  // what is hidden counts
}

TEST(MeshStrategies, MakeTheProblemOfEachHiddenShare) {
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  const Graph graph = placement_source_small_gpt(2);
  for (const std::string text : {"x=4", "x=2,y=2"}) {
    const auto mesh = std::make_shared<const Mesh>(parse_mesh(text));
    expect_shared_strategies(graph, shared_decisions_of(graph), mesh, cost_on(cluster, mesh), {});
  }
}

TEST(MeshStrategies, MakeTheProblemOfSingleOpsAndOfUntiedLayers) {
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  const Graph graph = placement_source_small_gpt(2);
  const auto mesh = std::make_shared<const Mesh>(parse_mesh("x=2"));
  const CostModel cost = cost_on(cluster, mesh);
  expect_shared_strategies(graph, shared_decisions_of(graph), mesh, cost, {.op_clusters = false});
  expect_shared_strategies(graph, no_shared_decisions(graph), mesh, cost, {});
}

TEST(CompiledCandidates, AreTheProgramsThatTheirChecksPass) {
  const Cluster cluster = parse_cluster_line("8xa100-80g");
  const Graph graph = placement_source_small_gpt(1);
  const PlanRequest request{graph, cluster};
  for (const std::string text : {"dp=2,tp=2", "pp=2,dp=2,micro_batches=2"}) {
    Plan plan = preset_plan(parse_preset(text), graph);
    const Compiled checked = compile_on(request, plan), compared = compile_on(request, plan, false);
    EXPECT_EQ(to_text(checked.tasks), to_text(compared.tasks)) << text;
    const auto has_check = [](const Compiled& compiled) {
      return std::ranges::count(compiled.passes, "check", &PassReport::name) > 0;
    };
    EXPECT_TRUE(has_check(checked)) << text;
    EXPECT_FALSE(has_check(compared)) << text;
  }
}

PlanSearchResult placement_source_result_for(const Graph& graph, const Cluster& cluster,
                                             int ranks) {
  return find_plan({graph, cluster},
                   {.constraints = constraints_of(ranks, false), .excludes = false});
}

TEST(SearchedPlans, AreAmongTheCandidatesWithABoundBelowTheirTime) {
  const Graph graph = placement_source_small_gpt(2);
  const PlanSearchResult result =
      placement_source_result_for(graph, parse_cluster_line("8xa100-80g"), 4);
  const EvaluatedCandidate* searched = result.find(Candidate::Source::kSearch);
  ASSERT_TRUE(searched);
  ASSERT_TRUE(searched->candidate.problem);
  EXPECT_LE(searched->candidate.problem->bound, searched->candidate.problem->time);
  EXPECT_LE(searched->candidate.problem->gap(), 0.01);
}

// Where zero 3 gathers parameters behind kernels it may be faster; the search has no such prefetch.
TEST(SearchedPlans, TakeLessThanEveryPresetWithoutZeroOfAGpt) {
  const Network network =
      network_of({.kind = "gpt", .context = 128, .layers = 2, .width = 256, .heads = 8});
  const Graph graph = training_graph(network, {}, 32, 1);
  const PlanSearchResult result =
      placement_source_result_for(graph, parse_cluster_line("8xv100"), 4);
  const EvaluatedCandidate* searched = result.find(Candidate::Source::kSearch);
  const auto preset =
      std::ranges::find_if(result.candidates, [](const EvaluatedCandidate& candidate) {
        return candidate.candidate.source == Candidate::Source::kPreset &&
               candidate.candidate.zero.value_or(0) == 0;
      });
  ASSERT_TRUE(searched && preset != result.candidates.end());
  EXPECT_LT(searched->step(), preset->step());
}

PlanSearchResult result_under(const Graph& graph, const PlanConstraints& constraints) {
  return find_plan({graph, parse_cluster_line("8xv100")}, {.constraints = constraints});
}

TEST(SearchedPlans, CompeteUnderFixedDegreesAndObeyThem) {
  const Graph graph = placement_source_small_gpt(2);
  for (const std::string fixed : {"dp=2,tp=2", "tp=4", "dp=2", "sp=2", "dp=4,bucket_mib=1"}) {
    const PlanConstraints constraints = constraints_of(4, false, fixed);
    const PlanSearchResult result = result_under(graph, constraints);
    const EvaluatedCandidate* searched = result.find(Candidate::Source::kSearch);
    ASSERT_TRUE(searched) << fixed;
    EXPECT_TRUE(obeys(searched->candidate, constraints)) << fixed;
  }
  EXPECT_FALSE(result_under(graph, constraints_of(4, false, "dp=2,micro_batches=2"))
                   .find(Candidate::Source::kSearch));
}

// dp divides the rows of every input, and tp none of them.
TEST(SearchedPlans, DivideTheInputsAsTheFixedDegreesSay) {
  const Graph graph = placement_source_small_gpt(1);
  const Cluster cluster = parse_cluster_line("8xv100");
  const std::vector<Candidate> plans =
      PlacementSource()({graph, cluster}, constraints_of(4, false, "dp=2,tp=2"), {});
  ASSERT_FALSE(plans.empty());
  for (const Candidate& candidate : plans) {
    const PlacedGraph placed = placements(graph, candidate.plan);
    for (ValueId input : placed.graph.inputs()) {
      if (placed.graph.type(input).shape.empty()) continue;
      EXPECT_EQ(to_text(placed.sharded.at(input)).substr(0, 5), "[@dp,") << candidate.name;
    }
  }
}

TEST(SearchedPlans, KeepTheMarksOfAPlan) {
  const Graph graph = placement_source_small_gpt(2);
  Plan plan;
  plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2,tp=2")));
  plan.marks = {shard_tensor("tokens", "P(\"dp\")"),
                shard_tensor("head.weight", "P(None, \"tp\")")};
  const PlanConstraints constraints = with_marks_of(plan, constraints_of(4, false));
  const PlanSearchResult result = result_under(graph, constraints);
  const EvaluatedCandidate* searched = result.find(Candidate::Source::kSearch);
  ASSERT_TRUE(searched);
  EXPECT_TRUE(obeys(searched->candidate, constraints));
  const PlacedGraph placed = placements(graph, searched->candidate.plan);
  EXPECT_EQ(to_text(placed.sharded.at(*find_value(placed, "tokens"))), "[@dp, *]");
  EXPECT_EQ(to_text(placed.sharded.at(*find_value(placed, "head.weight"))), "[*, @tp]");
  // A preset on this mesh has the marks, too, and no other preset is tried.
  for (const EvaluatedCandidate& candidate : result.candidates) {
    if (candidate.candidate.source != Candidate::Source::kPreset) continue;
    EXPECT_EQ(candidate.candidate.name, "dp=2,tp=2");
  }
}

TEST(SearchedPlans, RefuseMarksAndDegreesThatContradictEachOther) {
  Plan plan;
  plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2,tp=2")));
  EXPECT_THROW(with_marks_of(plan, constraints_of(4, false)), UserError);  // no marks
  plan.marks = {shard_tensor("tokens", "P(\"dp\")")};
  EXPECT_THROW(with_marks_of(plan, constraints_of(4, false, "tp=4")), UserError);
  EXPECT_THROW(with_marks_of(plan, constraints_of(8, false)), UserError);
  EXPECT_EQ(with_marks_of(plan, constraints_of(8, true)).ranks, 4);
}

// With little memory the search finds placements that hold less, or nothing.
TEST(SearchedPlans, FitWhereTheLimitOfMemoryAllowsIt) {
  const Graph graph = placement_source_small_gpt(2);
  ClusterDescription description = parse_cluster_line("cpu:4").description();
  const auto searched_within = [&](Bytes memory) {
    description.types.front().memory = memory;
    description.types.front().reserve = Bytes(0);
    return placement_source_result_for(graph, Cluster(description), 4);
  };
  const PlanSearchResult free = searched_within(Bytes(int64_t{1} << 30));
  const EvaluatedCandidate* best = free.find(Candidate::Source::kSearch);
  ASSERT_TRUE(best);
  const Bytes limit(best->fullest.memory.all().value() * 9 / 10);
  const PlanSearchResult limited = searched_within(limit);
  for (const EvaluatedCandidate& candidate : limited.candidates) {
    if (candidate.candidate.source != Candidate::Source::kSearch) continue;
    if (candidate.fits()) {
      EXPECT_LE(candidate.fullest.memory.all(), limit);
      return;
    }
  }
  FAIL() << "no searched plan fits " << to_text(limit);
}

}  // namespace
}  // namespace tessera
