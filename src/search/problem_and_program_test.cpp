// The problem of a search and the program that is compiled from an assignment of it: what their
// kernels and exchanges take one after the other, where no pass combines or hides exchanges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cluster/cluster_file.h"
#include "lower/lower.h"
#include "network/family.h"
#include "network/graphs.h"
#include "placement_search/search_problem.h"
#include "prediction/act_demands.h"
#include "shard/resolved/resolve.h"
#include "solver/solve.h"

namespace tessera {
namespace {

/// One problem, and the programs of its assignments.
struct Compared {
  std::string name;
  Graph graph;  // after the passes that rewrite it
  Cluster cluster;
  MeshPtr mesh;
  CostModel cost;
  Ties ties;
  SearchProblemOptions options;
  SearchProblem search;

  Compared(const ModelConfig& config, int64_t rows, const std::string& line,
           const std::string& mesh_text, bool ties_layers)
      : name(config.kind + " on " + mesh_text + " of " + line),
        graph(placements(training_graph(network_of(config), {}, rows, 1), serial_plan()).graph),
        cluster(parse_cluster_line(line)),
        mesh(std::make_shared<const Mesh>(parse_mesh(mesh_text))),
        cost(cost_of(in_order(cluster, mesh->size()), std::vector{mesh})),
        ties(ties_layers ? ties_of_like_layers(graph, {}) : no_ties(graph)),
        options({.combines = false}),
        search(graph, mesh, cost, ties, options) {}

  double of_problem(const solver::Assignment& assignment) const {
    return search.unit().seconds(evaluate(search.problem(), assignment).cost).value();
  }
  double of_program(const solver::Assignment& assignment) const;
};

/// The tasks of rank 0, and its parts of the inputs, which it copies.
double Compared::of_program(const solver::Assignment& assignment) const {
  const ShardedGraph sharded = search.placements(assignment);
  Plan plan;
  plan.meshes = one_mesh(mesh);
  plan.cost = cost;
  plan.disabled_passes = {"fold",    "algebra", "cse",     "dead-code", "collective-matmul",
                          "buckets", "combine", "prefetch"};
  plan.shardings.emplace().sections.emplace_back(kTrainSection,
                                                 resolve(graph, sharded, kTrainSection));
  const Compiled compiled = compile(graph, plan);
  const auto copied = [&](const TensorType& type, const DistAttr& attr, int64_t times) {
    const int64_t bytes = byte_size({type.dtype, attr.largest_shape(type.shape)}).value();
    return copy_price(Bytes(times * bytes), 1, cost.device).estimate.value();
  };
  double sum = 0;
  for (ValueId input : graph.inputs()) sum += copied(graph.type(input), sharded.of(input), 1);
  ActDemands demands(compiled.tasks, in_order(cluster, mesh->size()));
  for (TaskId id : compiled.tasks.tasks.indices()) {
    const Task& task = compiled.tasks.tasks[id];
    if (task.kind == Task::Kind::kCompute) sum += demands.kernels(0, id).time.value();
    for (size_t i = 0; i < task.parts.size(); ++i) {
      const Exchange& exchange = task.parts[i].exchange;
      const TensorType& type = compiled.tasks.registers[task.outputs[i]].type;
      int64_t times = 1;
      for (const PartialAxis& axis : resolved_axes(exchange.from, exchange.to))
        times *= mesh->shape()[axis.axis];
      sum += price(type, exchange, cost.links).estimate.value() + copied(type, exchange.to, times);
    }
  }
  return sum;
}

solver::Assignment solved(const solver::Problem& problem) {
  solver::SolveOptions how;
  how.work = 20;
  const solver::Answer answer = solver::solve(problem, how);
  EXPECT_TRUE(answer.assignment.has_value());
  return *answer.assignment;
}

TEST(ProblemOfAnAnswer, CostsWhatItsProgramCosts) {
  const std::vector<ModelConfig> models = {
      {.kind = "mlp", .width = 512},
      {.kind = "gpt", .vocabulary = 2048, .width = 256, .heads = 8},
      {.kind = "llama", .vocabulary = 2048, .width = 256, .heads = 8},
      {.kind = "bert", .width = 256, .heads = 8},
      {.kind = "encoder_decoder", .width = 256, .heads = 8},
      {.kind = "two_tower", .vocabulary = 4096},
      {.kind = "image_mlp", .image = {3, 16, 16}},
      {.kind = "resnet", .image = {3, 16, 16}},
      {.kind = "unet", .image = {3, 16, 16}, .width = 16},
  };
  for (const ModelConfig& config : models)
    for (const std::string line : {"8xa100-80g", "4x2xv100"})
      for (const std::string mesh : {"x=8", "x=2,y=4"}) {
        const Compared compared(config, 16, line, mesh, true);
        const solver::Assignment answer = solved(compared.search.problem());
        EXPECT_NEAR(compared.of_program(answer) / compared.of_problem(answer), 1, 0.02)
            << compared.name;
      }
}

/// The same problem with large random costs of the cones: its answers are random strategies of
/// cones, with the best homes and copies for them.
solver::Problem with_random_cones(const solver::Problem& problem, int cones, std::mt19937& random) {
  std::uniform_int_distribution<solver::Cost> cost(0, 1'000'000'000'000);
  solver::Problem sampled;
  for (int i = 0; i < problem.nodes(); ++i) {
    const auto known = problem.costs(problem.node(i));
    std::vector<solver::Cost> costs(known.begin(), known.end());
    for (solver::Cost& value : costs)
      if (i < cones) value = cost(random);
    sampled.add_node({}, costs, std::vector<solver::Usage>(costs.size(), 0));
  }
  for (int i = 0; i < problem.edges(); ++i) {
    const solver::Problem::Edge& edge = problem.edge(i);
    sampled.add_edge(edge.a, edge.b, problem.costs(edge));
  }
  return sampled;
}

// Readers of one value share one copy of it in the problem, and any number of copies in the
// program, which may thus take less. TESSERA_ASSIGNMENTS=167 compares 501 assignments instead of
// 15.
TEST(ProblemOfRandomStrategies, CostsNoLessThanTheirProgram) {
  const char* wanted = std::getenv("TESSERA_ASSIGNMENTS");
  const int assignments = wanted ? std::atoi(wanted) : 5;
  std::mt19937 random(7);
  std::vector<double> ratios;
  for (const std::string mesh : {"x=2", "x=4", "x=2,y=2"}) {
    const Compared compared({.kind = "gpt", .context = 16, .layers = 1, .width = 32, .heads = 4}, 8,
                            "8xa100-80g", mesh, false);
    // Nodes of cones come first.
    const std::vector<int> of_op = cones_of(compared.graph, compared.ties).of_op;
    const auto cones = static_cast<int>(std::set(of_op.begin(), of_op.end()).size());
    for (int i = 0; i < assignments; ++i) {
      const solver::Assignment assignment =
          solved(with_random_cones(compared.search.problem(), cones, random));
      ratios.push_back(compared.of_program(assignment) / compared.of_problem(assignment));
    }
  }
  std::ranges::sort(ratios);
  RecordProperty("least", std::to_string(ratios.front()));
  RecordProperty("median", std::to_string(ratios[ratios.size() / 2]));
  RecordProperty("most", std::to_string(ratios.back()));
  EXPECT_LE(ratios.back(), 1.02);
  EXPECT_GE(ratios[ratios.size() / 2], 0.98);
}

}  // namespace
}  // namespace tessera
