#include "cli/commands/simulate.h"

#include <memory>

#include "base/file.h"
#include "cli/print/prediction_text.h"
#include "cli/run/predicted_run.h"
#include "engine/graphs.h"

namespace tessera {
namespace {

/// The decisions that the plan leaves to the compiler are taken by the prices of the cluster.
void set_cost(Plan& plan, const Cluster& cluster) {
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : plan.placed()) meshes.push_back(mesh.mesh);
  plan.cost = cost_of(in_order(cluster, plan.rank_count()), meshes);
}

}  // namespace

void SimulateCommand::describe(OptionParser& parser) {
  add_options(parser, config);
  parser.required_text({"--cluster", "FILE|LINE",
                        "The devices and their links: a cluster file, or one line such as "
                        "'8xa100-80g' or '4x8xh100-sxm;ib=400Gb'"},
                       cluster);
  parser.text({"--trace", "FILE", "Write the simulated timeline, which ui.perfetto.dev opens"},
              trace);
  add_options(parser, compilation);
  add_options(parser, output);
}

ExitCode SimulateCommand::run(Processes&) {
  const NamedCluster machines = named_cluster(cluster);
  Session session = open_session(config, {}, compilation);
  set_sizes(session.config.model, session.config.data);
  const Graph graph = training_graph(session.config);
  check_fits(session.plan, graph);
  if (!config.cost) set_cost(session.plan, *machines.cluster);
  CompileOptions options;
  options.verify_passes = compilation.verify;
  const auto compiled = std::make_shared<const Compiled>(compile(graph, session.plan, options));
  const PredictedRun run = predict_run(session.config, session.plan, graph, compiled, machines);
  if (trace) write_file(*trace, to_trace_json(run.prediction.timeline));
  print_result(
      output, to_document(run),
      plan_summary(session.plan) + ", on " + machines.name + "\n\n" + prediction_text(run));
  return run.prediction.fits() ? ExitCode::kDone : ExitCode::kNoPlan;
}

}  // namespace tessera
