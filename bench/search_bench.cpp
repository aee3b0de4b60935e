// The time and the memory that the search for placements takes, its gap, and the simulated step of
// its plan. Peers that were measured on a machine of this kind: docs/planner.md.
//
//     search_bench CLUSTER MESH CONFIG...      search_bench 8x8xh100-sxm dp=8,tp=8 llama.toml
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <iostream>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "planner/placement/placement_search.h"
#include "sharding/explicit/explicit_shardings.h"
#include "simulator/step/step_prediction.h"
#include "training/config/config.h"
#include "training/engine/graphs.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

constexpr int kRuns = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Seconds simulated(const Graph& graph, const Plan& plan, const Deployment& deployment) {
  CompileOptions options;
  options.check_placements = false;
  Compiled compiled = compile(graph, plan, options);
  return predict_step(std::make_shared<const TaskGraph>(std::move(compiled.tasks)), deployment)
      .step;
}

void run(const std::string& file, const Cluster& cluster, const MeshPtr& mesh) {
  RunConfig config = read_config(file);
  set_sizes(config.model, config.data);
  const Deployment deployment = identity_mapping(cluster, mesh->size());
  Plan plan;
  plan.meshes = one_mesh(mesh);
  plan.cost = cost_of(deployment, std::vector{mesh});
  double graph_time = 1e9, search_time = 1e9;
  Graph graph;
  std::optional<PlacementResult> result;
  PlacedGraph placed;
  for (int i = 0; i < kRuns; ++i) {
    const double start = now();
    graph = training_graph(config);
    placed = placements(graph, plan);
    const double begin = now();
    result = search_placements(placed.graph, mesh, plan.cost);
    graph_time = std::min(graph_time, begin - start);
    search_time = std::min(search_time, now() - begin);
  }
  std::cout << fmt::format(
      "{} on {}: {} ops, graph {:.2f} s, search {:.2f} s, {:.0f} MiB\n"
      "  {} nodes, {} edges, {} strategies ({} left out), gap {:.3f}%\n",
      file, to_text(*mesh), placed.graph.ops().size(), graph_time, search_time, peak_mib(),
      result->nodes, result->edges, result->strategies, result->dropped_strategies,
      100 * result->gap());
  plan.shardings.emplace();
  plan.shardings->sections.emplace_back(kTrainSection,
                                        to_shardings(placed.graph, result->sharded, kTrainSection));
  std::cout << fmt::format("  problem {:.4g} ms, simulated {:.4g} ms\n", 1e3 * result->time.value(),
                           1e3 * simulated(graph, plan, deployment).value());
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "search_bench CLUSTER MESH CONFIG...\n";
    return 2;
  }
  const tessera::Cluster cluster = tessera::cluster_of(argv[1]);
  const auto mesh = std::make_shared<const tessera::Mesh>(tessera::parse_mesh(argv[2]));
  for (int i = 3; i < argc; ++i) tessera::run(argv[i], cluster, mesh);
}
