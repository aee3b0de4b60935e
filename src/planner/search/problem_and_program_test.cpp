// The problem of a search and the program that is compiled from an assignment of it: what their
// kernels and exchanges take one after the other, and the most bytes that they hold, where no pass
// combines or hides exchanges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/solver/solve.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "planner/placement/search_problem.h"
#include "sharding/explicit/explicit_shardings.h"
#include "simulator/step/act_demands.h"

namespace tessera {
namespace {

/// What a program has to what its problem says of the same assignment.
struct Ratios {
  double time = 0;        // of the program to the problem
  double arena = 0;       // of the peak without variables to the arena of the program
  double live_bound = 0;  // the same to the most bytes that are alive there
};

/// One problem, and the programs of its assignments.
struct Compared {
  std::string name;
  Graph graph;  // after the passes that rewrite it
  Cluster cluster;
  MeshPtr mesh;
  CostModel cost;
  SharedDecisions shared_decisions;
  SearchProblemOptions options;
  SearchProblem search;

  Compared(const ModelConfig& config, int64_t rows, const std::string& line,
           const std::string& mesh_text, bool shares_layer_decisions, SearchProblemOptions how = {})
      : name(config.kind + " on " + mesh_text + " of " + line),
        graph(placements(training_graph(network_of(config), {}, rows, 1), serial_plan()).graph),
        cluster(parse_cluster_line(line)),
        mesh(std::make_shared<const Mesh>(parse_mesh(mesh_text))),
        cost(cost_of(identity_mapping(cluster, mesh->size()), std::vector{mesh})),
        shared_decisions(shares_layer_decisions ? shared_decisions_of(graph, {})
                                                : no_shared_decisions(graph)),
        options(std::move(how)),
        search(graph, mesh, cost, shared_decisions, options) {}

  Ratios ratios(const solver::Assignment& assignment);

 private:
  double of_problem(const solver::Assignment& assignment) const {
    return search.unit().seconds(evaluate(search.problem(), assignment).cost).value();
  }
  Compiled compiled(const ShardedGraph& sharded) const;
  double of_program(const Compiled& program, const ShardedGraph& sharded) const;
  /// What the canonical placements of variables take.
  Bytes variables(const ShardedGraph& sharded) const;
};

Compiled Compared::compiled(const ShardedGraph& sharded) const {
  Plan plan;
  plan.meshes = one_mesh(mesh);
  plan.cost = cost;
  plan.bucket = options.bucket;
  plan.disabled_passes = {"fold",    "algebra", "cse",     "dead-code", "collective-matmul",
                          "buckets", "combine", "prefetch"};
  if (options.combines) std::erase(plan.disabled_passes, "buckets");
  plan.shardings.emplace().sections.emplace_back(kTrainSection,
                                                 to_shardings(graph, sharded, kTrainSection));
  return compile(graph, plan);
}

/// The tasks of rank 0, and its parts of the inputs, which it copies.
double Compared::of_program(const Compiled& compiled, const ShardedGraph& sharded) const {
  const auto copied = [&](const TensorType& type, const DistAttr& attr, int64_t times) {
    const int64_t bytes = byte_size({type.dtype, attr.largest_shape(type.shape)}).value();
    return copy_price(Bytes(times * bytes), 1, cost.device).estimate.value();
  };
  double sum = 0;
  for (ValueId input : graph.inputs()) sum += copied(graph.type(input), sharded.at(input), 1);
  ActDemands demands(compiled.tasks, identity_mapping(cluster, mesh->size()));
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

Bytes Compared::variables(const ShardedGraph& sharded) const {
  int64_t sum = 0;
  for (const Variable& variable : graph.variables()) {
    const TensorType& type = graph.type(variable.value);
    const DistAttr& canonical_placement = sharded.at(variable.value);
    sum += align_up(byte_size({type.dtype, canonical_placement.largest_shape(type.shape)}).value());
  }
  return Bytes(sum);
}

Ratios Compared::ratios(const solver::Assignment& assignment) {
  const ShardedGraph sharded = search.placements(assignment);
  const Compiled program = compiled(sharded);
  const ArenaPlan& arena = program.arenas[MeshIndex(0)];
  const auto peak = static_cast<double>((search.peak(assignment) - variables(sharded)).value());
  return {of_program(program, sharded) / of_problem(assignment),
          peak / static_cast<double>(arena.size.value()),
          peak / static_cast<double>(arena.live_bound.value())};
}

/// The least, the median and the most are properties of the test.
class Recorded {
 public:
  explicit Recorded(std::vector<double> ratios, const std::string& name)
      : ratios_(std::move(ratios)) {
    std::ranges::sort(ratios_);
    const auto record = [&](const std::string& what, double ratio) {
      testing::Test::RecordProperty(name + " " + what, std::to_string(ratio));
    };
    record("least", smallest());
    record("median", median());
    record("most", largest());
  }
  double smallest() const { return ratios_.front(); }
  double median() const { return ratios_[ratios_.size() / 2]; }
  double largest() const { return ratios_.back(); }

 private:
  std::vector<double> ratios_;
};

struct RecordedRatios {
  Recorded time, arena, live_bound;

  explicit RecordedRatios(const std::vector<Ratios>& all)
      : time(each(all, &Ratios::time), "time"),
        arena(each(all, &Ratios::arena), "of the arena"),
        live_bound(each(all, &Ratios::live_bound), "of the live bound") {}

 private:
  static std::vector<double> each(const std::vector<Ratios>& all, double Ratios::* member) {
    std::vector<double> list;
    for (const Ratios& ratios : all) list.push_back(ratios.*member);
    return list;
  }
};

solver::Assignment solved(const solver::Problem& problem) {
  solver::SolveOptions how;
  how.work = 20;
  const solver::Answer result = solver::solve(problem, how);
  EXPECT_TRUE(result.assignment.has_value());
  return *result.assignment;
}

TEST(ProblemOfABestPlan, TakesWhatItsProgramDoesAndHoldsTheSame) {
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
  std::vector<Ratios> all;
  for (const ModelConfig& config : models)
    for (const std::string line : {"8xa100-80g", "4x2xv100"})
      for (const std::string mesh : {"x=8", "x=2,y=4"}) {
        Compared compared(config, 16, line, mesh, true, {.combines = false});
        all.push_back(compared.ratios(solved(compared.search.problem())));
        EXPECT_NEAR(all.back().time, 1, 0.02) << compared.name;
        EXPECT_EQ(all.back().live_bound, 1) << compared.name;
        EXPECT_LE(all.back().arena, 1.1) << compared.name;
      }
  const RecordedRatios recorded(all);
}

/// The same problem with large random costs of the op clusters: its answers are random strategies
/// of op clusters, with the best canonical placements and copies for them.
solver::Problem with_random_op_clusters(const solver::Problem& problem, int op_clusters,
                                        std::mt19937& random) {
  std::uniform_int_distribution<solver::Cost> cost(0, 1'000'000'000'000);
  solver::Problem sampled;
  for (int i = 0; i < problem.nodes(); ++i) {
    const auto known = problem.costs(problem.node(i));
    std::vector<solver::Cost> costs(known.begin(), known.end());
    for (solver::Cost& value : costs)
      if (i < op_clusters) value = cost(random);
    sampled.add_node({}, costs, std::vector<solver::Usage>(costs.size(), 0));
  }
  for (int i = 0; i < problem.edges(); ++i) {
    const solver::Problem::Edge& edge = problem.edge(i);
    sampled.add_edge(edge.a, edge.b, problem.costs(edge));
  }
  return sampled;
}

/// TESSERA_ASSIGNMENTS=167 compares 501 assignments of a model instead of 15.
std::vector<Ratios> ratios_of_random_strategies(const ModelConfig& config,
                                                const SearchProblemOptions& options) {
  const char* wanted = std::getenv("TESSERA_ASSIGNMENTS");
  const int assignments = wanted ? std::atoi(wanted) : 5;
  std::mt19937 random(7);
  std::vector<Ratios> all;
  for (const std::string mesh : {"x=2", "x=4", "x=2,y=2"}) {
    Compared compared(config, 8, "8xa100-80g", mesh, false, options);
    // Nodes of op clusters come first.
    const std::vector<int> of_op = op_clusters_of(compared.graph, compared.shared_decisions).of_op;
    const auto op_clusters = static_cast<int>(std::set(of_op.begin(), of_op.end()).size());
    for (int i = 0; i < assignments; ++i)
      all.push_back(compared.ratios(
          solved(with_random_op_clusters(compared.search.problem(), op_clusters, random))));
  }
  return all;
}

class ProblemOfRandomStrategies : public testing::TestWithParam<ModelConfig> {};

// Readers of one value find it in one placement of the problem, or in two, and in any number of
// them in the program, which may thus take less. It takes more where the problem takes what the
// forward reads from a copy that is made for the backward: of 501 assignments of a llama one takes
// 1.023 times as much. The peak is that of the program to the byte.
TEST_P(ProblemOfRandomStrategies, TakesNearlyWhatTheirProgramDoesAndHoldsTheSame) {
  const RecordedRatios recorded(ratios_of_random_strategies(GetParam(), {.combines = false}));
  EXPECT_LE(recorded.time.largest(), GetParam().kind == "llama" ? 1.025 : 1.02);
  EXPECT_GE(recorded.time.smallest(), 0.98);
  EXPECT_EQ(recorded.live_bound.smallest(), 1);
  EXPECT_EQ(recorded.live_bound.largest(), 1);
  EXPECT_LE(recorded.arena.largest(), 1.1);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ProblemOfRandomStrategies,
    testing::Values(ModelConfig{.kind = "gpt", .context = 16, .layers = 1, .width = 32, .heads = 4},
                    ModelConfig{
                        .kind = "llama", .context = 16, .layers = 1, .width = 32, .heads = 4},
                    ModelConfig{.kind = "mlp", .width = 64},
                    ModelConfig{.kind = "resnet", .image = {3, 8, 8}, .width = 8},
                    ModelConfig{.kind = "unet", .image = {3, 8, 8}, .width = 4}),
    [](const testing::TestParamInfo<ModelConfig>& model) { return model.param.kind; });

// Gradients that are exchanged early wait for the optimizer in the parts that it reads.
TEST(ProblemWithBuckets, HoldsWhatTheProgramsOfRandomStrategiesDo) {
  const ModelConfig gpt{.kind = "gpt", .context = 16, .layers = 1, .width = 32, .heads = 4};
  const SearchProblemOptions options{.combines = true, .bucket = Bytes(16 << 10)};
  for (const Ratios& ratios : ratios_of_random_strategies(gpt, options))
    EXPECT_EQ(ratios.live_bound, 1);
}

}  // namespace
}  // namespace tessera
