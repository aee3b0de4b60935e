// The search for placements against the presets: simulated steps, time of planning, bound.
//   search_bench CLUSTER RANKS CONFIG...
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "cluster/cluster_file.h"
#include "config/config.h"
#include "engine/graphs.h"
#include "engine/run_data.h"
#include "lower/lower.h"
#include "placement_search/placement_search.h"
#include "prediction/step_prediction.h"
#include "presets/presets.h"
#include "shard/resolved/resolve.h"

namespace tessera {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Evaluated {
  double step = 0;
  int64_t memory = 0;
  double sent = 0;
};

Evaluated evaluate(const Graph& graph, Plan plan, const Cluster& machines, bool keep_cost = false) {
  const Deployment deployment = in_order(machines, plan.rank_count());
  if (!keep_cost) {
    std::vector<MeshPtr> meshes;
    for (const NamedMesh& mesh : plan.placed()) meshes.push_back(mesh.mesh);
    plan.cost = cost_of(deployment, meshes);
  }
  CompileOptions options;
  options.check_placements = false;
  Compiled compiled = compile(graph, plan, options);
  const auto tasks = std::make_shared<const TaskGraph>(std::move(compiled.tasks));
  const StepPrediction prediction = predict_step(tasks, deployment, {});
  int64_t memory = 0;
  for (const RankMemoryNeed& need : prediction.memory)
    memory = std::max(memory, need.all().value());
  return {prediction.step.value(), memory, 0};
}

void print(const std::string& name, const Evaluated& e, double took) {
  std::cout << fmt::format("  {:24} step {:10.4f} ms  memory {:9.3f} MiB   {:.2f} s\n", name,
                           1e3 * e.step, static_cast<double>(e.memory) / (1 << 20), took);
}

void run(const std::string& config_file, const std::string& cluster, int ranks) {
  RunConfig config = read_config(config_file);
  set_sizes(config.model, config.data);
  const Graph graph = training_graph(config);
  const Cluster machines = cluster_of(cluster);
  std::cout << config_file << "\n";
  const char* only = std::getenv("MESH");
  for (int dp = 1; dp <= ranks && !only; ++dp) {
    if (ranks % dp != 0) continue;
    for (int sp = 1; sp <= ranks / dp; ++sp) {
      if (ranks / dp % sp != 0) continue;
      const int tp = ranks / dp / sp;
      const std::string text = fmt::format("dp={},sp={},tp={}", dp, sp, tp);
      std::string preset;
      if (dp > 1) preset += fmt::format(",dp={}", dp);
      if (sp > 1) preset += fmt::format(",sp={}", sp);
      if (tp > 1) preset += fmt::format(",tp={}", tp);
      const double start = now();
      try {
        const Plan plan =
            preset_plan(parse_preset(preset.empty() ? "dp=1" : preset.substr(1)), graph);
        const Evaluated e = evaluate(graph, plan, machines);
        print(text, e, now() - start);
      } catch (const UserError& error) {
        std::cout << "  " << text << ": " << error.what_happened() << "\n";
      }
    }
  }
  std::vector<std::pair<Shape, std::vector<std::string>>> shapes{{{ranks}, {"x"}}};
  for (int x = 2; x <= ranks / 2; ++x)
    if (ranks % x == 0) shapes.push_back({{x, ranks / x}, {"x", "y"}});
  if (only) {
    const Mesh mesh = parse_mesh(only);
    shapes = {{mesh.shape(), mesh.axes()}};
  }
  for (const auto& [shape, axes] : shapes)
    for (const double hidden : {0.0, 0.5, 1.0}) {
      double start = now();
      Plan plan;
      const auto mesh = std::make_shared<const Mesh>(shape, axes);
      plan.meshes = one_mesh(mesh);
      const Deployment deployment = in_order(machines, ranks);
      plan.cost = cost_of(deployment, std::vector{mesh});
      const PlacedGraph placed = placements(graph, plan);
      double begin = now();
      const auto answer = search_placements(placed.graph, placed.sharded.meshes[0].mesh, plan.cost,
                                            {.problem = {.hidden_share = hidden}});
      double took = now() - begin;
      if (only) std::cout << "graph " << begin - start << " s\n";
    if (!answer) {
        std::cout << "no answer\n";
        continue;
      }
      std::cout << fmt::format(
          "  search {}: {} ops, {} nodes {} edges {} strategies ({} dropped), "
          "problem {:.4f} ms bound {:.4f} gap {:.2f}%  {:.2f} s, counted {} MiB\n",
          to_text(*mesh), placed.graph.ops().size(), answer->nodes, answer->edges,
          answer->strategies, answer->dropped_strategies, 1e3 * answer->time.value(),
          1e3 * answer->bound.value(), 100 * answer->gap(), took,
          static_cast<double>(answer->counted_memory.value()) / (1 << 20));
      Shardings shardings;
      shardings.sections.emplace_back(std::string(kTrainSection),
                                      resolve(placed.graph, answer->sharded, kTrainSection));
      plan.shardings = shardings;
      const Evaluated e = evaluate(graph, plan, machines, true);
      print(fmt::format("search hidden {}", hidden), e, now() - start);
      if (getenv("SHOW")) std::cout << to_json(to_document(shardings)) << "\n";
    }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  for (int i = 3; i < argc; ++i) tessera::run(argv[i], argv[1], std::atoi(argv[2]));
}
