// The result of the search against all other choices, and against another solver.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "base/solver/solve.h"
#include "base/solver/testing/milp.h"
#include "base/testing/test_folder.h"
#include "ir/ops/builder.h"
#include "planner/placement/placement_search.h"
#include "planner/placement/search_problem.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

/// A program of products, sums, transposes and nonlinearities over values of 16x16, with steps of
/// the variables that products read.
Graph random_program(int ops, std::mt19937& random) {
  const auto below = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  Graph graph;
  Builder builder(graph);
  const TensorType type{DType::kF32, {16, 16}};
  std::vector<ValueId> values{builder.input("x", type)};
  for (int i = 0; i < ops; ++i) {
    const ValueId a = values[below(values.size())], b = values[below(values.size())];
    const std::string name = "op" + std::to_string(i);
    switch (below(6)) {
      case 0:
      case 1: {
        const ValueId w = builder.variable(name + ".w", type, Initializer::normal(0, 0.02));
        values.push_back(builder.dot(a, w, "mk,kn->mn", name));
        if (below(2) == 0) graph.set_next(w, builder.sub(w, values.back(), name + ".next"));
        break;
      }
      case 2: values.push_back(builder.dot(a, b, "mk,kn->mn", name)); break;
      case 3: values.push_back(builder.add(a, b, name)); break;
      case 4: values.push_back(builder.transpose(a, {1, 0}, name)); break;
      default: values.push_back(builder.unary("tanh", a, name));
    }
  }
  graph.add_output("result", values.back());
  return graph;
}

CostModel random_cost(std::mt19937& random) {
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  CostModel cost;
  cost.device.flops_per_second = between(1e8, 1e11);
  cost.device.bytes_per_second = between(1e8, 1e10);
  cost.device.copied_bytes_per_second = between(1e8, 1e11);
  cost.device.launch = Seconds(1e-7);
  cost.links.any = {Seconds(between(1e-8, 1e-6)), between(1e8, 1e10)};
  cost.links.axes["y"] = {Seconds(between(1e-8, 1e-6)), between(1e8, 1e10)};
  return cost;
}

/// The least cost of all assignments: every one is visited that does not cost more already.
class AllAssignments {
 public:
  explicit AllAssignments(const solver::Problem& problem)
      : problem_(problem), now_(problem.nodes(), 0), edges_(problem.nodes()) {
    std::vector<int> place(problem.nodes(), -1);  // each next one has most neighbours before it
    while (std::ssize(order_) < problem.nodes()) {
      std::vector<int> known(problem.nodes(), 0);
      for (int i = 0; i < problem.edges(); ++i) {
        known[problem.edge(i).a] += place[problem.edge(i).b] >= 0;
        known[problem.edge(i).b] += place[problem.edge(i).a] >= 0;
      }
      for (int i = 0; i < problem.nodes(); ++i)
        if (place[i] >= 0) known[i] = -1;
      order_.push_back(static_cast<int>(std::ranges::max_element(known) - known.begin()));
      place[order_.back()] = static_cast<int>(order_.size()) - 1;
    }
    for (int i = 0; i < problem.edges(); ++i) {
      const auto& [a, b] = std::pair(problem.edge(i).a, problem.edge(i).b);
      edges_[place[a] > place[b] ? a : b].push_back(i);
    }
  }

  /// nullopt when none is feasible.
  std::optional<solver::Wide> smallest() {
    visit(0, 0);
    return min_;
  }

 private:
  void visit(int depth, solver::Wide cost) {
    if (min_ && cost >= *min_) return;
    if (depth == problem_.nodes()) {
      if (evaluate(problem_, now_).feasible()) min_ = cost;
      return;
    }
    const int node = order_[depth];
    for (int s = 0; s < problem_.strategies(node); ++s) {
      now_[node] = s;
      solver::Wide sum = cost + problem_.costs(problem_.node(node))[s];
      bool is_forbidden = false;
      for (int e : edges_[node]) {
        const solver::Problem::Edge& edge = problem_.edge(e);
        const solver::Cost pair =
            problem_.costs(edge)[now_[edge.a] * problem_.strategies(edge.b) + now_[edge.b]];
        is_forbidden |= pair >= solver::kForbidden;
        sum += pair;
      }
      const solver::Usage usage = problem_.usages(problem_.node(node))[s];
      hold(problem_.node(node).interval, usage);
      if (!is_forbidden && !is_too_full()) visit(depth + 1, sum);
      hold(problem_.node(node).interval, -usage);
    }
  }

  void hold(const solver::Interval& moments, solver::Usage usage) {
    for (solver::Moment at = moments.begin; at < moments.end; ++at) held_[at] += usage;
  }
  /// Already without what edges and later nodes hold.
  bool is_too_full() const {
    return problem_.usage_limit() && std::ranges::any_of(held_, [&](const auto& entry) {
             return entry.second > *problem_.usage_limit();
           });
  }

  const solver::Problem& problem_;
  solver::Assignment now_;
  std::vector<int> order_;
  std::map<solver::Moment, solver::Usage> held_;
  std::vector<std::vector<int>> edges_;  // by their later end
  std::optional<solver::Wide> min_;
};

/// A limit of memory that is absent, that binds, or that nothing keeps.
void set_limit(SearchProblem& search, int which) {
  solver::SolveOptions how;
  how.work = 20;
  const solver::Answer free = solve(search.problem(), how);
  ASSERT_TRUE(free.assignment.has_value());
  const auto peak = static_cast<int64_t>(evaluate(search.problem(), *free.assignment).peak);
  if (which == 1) search.problem().set_usage_limit(peak * 3 / 4);
  if (which == 2) search.problem().set_usage_limit(peak > 0 ? 16 : 0);
}

TEST(SearchedProgram, OfAFewOpsIsTheBestOfAllCombinations) {
  std::mt19937 random(20261123);
  const std::string meshes[] = {"x=2", "x=4", "x=2,y=2"};
  int limited = 0, infeasible = 0;
  for (int i = 0; i < 120; ++i) {
    const std::string& mesh_text = meshes[i % 3];
    const Graph graph = random_program(mesh_text == "x=2,y=2" ? 2 : 1 + i % 5, random);
    const CostModel cost = random_cost(random);
    SearchProblem search(graph, mesh_of(mesh_text), cost, no_shared_decisions(graph));
    set_limit(search, i / 3 % 3);
    solver::SolveOptions how;
    how.work = 100;
    const std::optional<solver::Wide> smallest = AllAssignments(search.problem()).smallest();
    EXPECT_EQ(solve(search.problem(), how).cost, smallest) << i << " on " << mesh_text;
    limited += search.problem().usage_limit() && smallest;
    infeasible += !smallest;
  }
  EXPECT_GT(limited, 5);
  EXPECT_GT(infeasible, 5);
}

TEST(SearchedProgram, OfUpTo30NodesIsWhatAnIntegerProgramGives) {
  if (!solver::has_cbc()) GTEST_SKIP() << "cbc is not installed";
  const TestFolder folder;
  std::mt19937 random(20261124);
  int compared = 0;
  for (int i = 0; i < 40; ++i) {
    const Graph graph = random_program(6 + i % 5, random);
    SearchProblem search(graph, mesh_of(i % 2 == 0 ? "x=2" : "x=4"), random_cost(random),
                         no_shared_decisions(graph));
    if (search.problem().nodes() > 30) continue;
    set_limit(search, i % 3);
    solver::SolveOptions how;
    how.work = 100;
    const solver::Answer found = solve(search.problem(), how);
    const std::string smallest = min_cost_by_cbc(search.problem(), folder.path());
    if (smallest.empty()) continue;
    ++compared;
    ASSERT_EQ(found.cost.has_value(), smallest != "none") << i;
    if (!found.cost) continue;
    const double expected = std::stod(smallest);
    EXPECT_NEAR(solver::to_double(*found.cost), expected, 1e-6 * expected) << i;
  }
  EXPECT_GT(compared, 25);
}

/// Blocks of a product, a sum and a nonlinearity; shared decisions let them take one.
Graph blocks(int layers) {
  Graph graph;
  Builder builder(graph);
  ValueId x = builder.input("x", {DType::kF32, {64, 32}});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".";
    const ValueId w =
        builder.variable(name + "w", {DType::kF32, {32, 32}}, Initializer::normal(0, 0.02));
    const ValueId y = builder.dot(x, w, "mk,kn->mn", name + "dot");
    x = builder.unary("tanh", builder.add(x, y, name + "sum"), name + "tanh");
    graph.set_next(w, builder.sub(w, builder.dot(x, y, "mk,mn->kn", name + "step"), name + "n"));
  }
  return graph;
}

TEST(SearchedProgram, OfTiedLayersIsWithin1PercentOfThatOfLayersOnTheirOwn) {
  std::mt19937 random(20261125);
  const Graph graph = blocks(4);
  for (int i = 0; i < 12; ++i) {
    const CostModel cost = random_cost(random);
    solver::SolveOptions how;
    how.work = 100;
    const MeshPtr mesh = mesh_of(i % 2 == 0 ? "x=4" : "x=2,y=2");
    const SearchProblem shared(graph, mesh, cost, shared_decisions_of(graph));
    const SearchProblem separate(graph, mesh, cost, no_shared_decisions(graph));
    const double a = solver::to_double(*solve(shared.problem(), how).cost);
    const double b = solver::to_double(*solve(separate.problem(), how).cost);
    EXPECT_LT(shared.problem().nodes(), separate.problem().nodes());
    EXPECT_LE(b, a + 100) << i;  // each cost is rounded to a picosecond
    EXPECT_LE(a, 1.01 * b) << i;
  }
}

/// With shared decisions, with these and then improved with layers on their own, and on their own
/// at once.
std::vector<double> seconds_of_searches(const Graph& graph, const MeshPtr& mesh,
                                        const CostModel& cost, std::optional<Bytes> limit) {
  std::vector<double> seconds;
  for (const PlacementSearchOptions& options :
       {PlacementSearchOptions{.memory_limit = limit, .separate_strategies = 0},
        PlacementSearchOptions{.memory_limit = limit, .separate_strategies = 5'000},
        PlacementSearchOptions{.memory_limit = limit, .shares_layer_decisions = false}}) {
    const auto result = search_placements(graph, mesh, cost, options);
    seconds.push_back(result ? result->time.value() : 0);
    EXPECT_TRUE(!result || !limit || result->counted_memory <= *limit);
  }
  return seconds;
}

TEST(SearchedProgram, OfTiedLayersIsImprovedWithLayersOnTheirOwn) {
  std::mt19937 random(20261127);
  const Graph graph = blocks(4);
  for (int i = 0; i < 12; ++i) {
    const CostModel cost = random_cost(random);
    const std::vector<double> seconds =
        seconds_of_searches(graph, mesh_of(i % 2 == 0 ? "x=4" : "x=2,y=2"), cost, {});
    EXPECT_LE(seconds[1], seconds[0]) << i;
    EXPECT_LE(seconds[1], 1.0001 * seconds[2]) << i;
  }
}

// Where memory binds, a few of the layers are divided further and the others are not.
TEST(SearchedProgram, OfTiedLayersIsImprovedMostWhereMemoryBinds) {
  std::mt19937 random(20261128);
  const Graph graph = blocks(6);
  int better = 0;
  for (int i = 0; i < 8; ++i) {
    const CostModel cost = random_cost(random);
    const MeshPtr mesh = mesh_of("x=4");
    const auto free = search_placements(graph, mesh, cost, {.separate_strategies = 0});
    const Bytes limit(free->counted_memory.value() * 85 / 100);
    const std::vector<double> seconds = seconds_of_searches(graph, mesh, cost, limit);
    if (seconds[0] == 0) continue;
    EXPECT_LE(seconds[1], seconds[0]) << i;
    better += seconds[1] < 0.999 * seconds[0];
  }
  EXPECT_GT(better, 0);
}

// A limit of strategies that the layers on their own exceed leaves the result of shared decisions.
TEST(SearchedProgram, OfManyLayersIsNotSearchedUntied) {
  std::mt19937 random(20261129);
  const CostModel cost = random_cost(random);
  const auto shared =
      search_placements(blocks(12), mesh_of("x=4"), cost, {.separate_strategies = 0});
  const auto same =
      search_placements(blocks(12), mesh_of("x=4"), cost, {.separate_strategies = 60});
  EXPECT_EQ(same->time, shared->time);
  EXPECT_EQ(same->nodes, shared->nodes);
}

}  // namespace
}  // namespace tessera
