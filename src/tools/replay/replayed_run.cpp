#include "tools/replay/replayed_run.h"

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/precision/precision.h"
#include "planner/presets/presets.h"
#include "simulator/step/deployment.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

/// The decisions that the plan leaves to the compiler are taken by the prices of the cluster.
void set_cost(Plan& plan, const Deployment& deployment) {
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : plan.placed()) meshes.push_back(mesh.mesh);
  plan.cost = cost_of(deployment, meshes);
}

bool is_shortened(const Plan& plan) {
  return plan.accumulate == 1 && plan.schedule != PipelineKind::kForwardThenBackward &&
         plan.micro_batches > shorter_counts(plan).back();
}

}  // namespace

ReplayedRun::ReplayedRun(TableRun row)
    : row_(std::move(row)), description_(cluster_of(row_.cluster).description()) {
  plan_ = preset_plan(parse_preset(row_.preset), training_graph(row_.config));
}

void ReplayedRun::compile_on(const Cluster& cluster) {
  set_cost(plan_, identity_mapping(cluster, plan_.hardware()));
  const auto graph_of = [&](int64_t rows) {
    RunConfig config = row_.config;
    config.train.batch = rows;
    return training_graph(config);
  };
  CompileOptions options;
  options.check_placements = options.verify = false;
  const auto add = [&](const Graph& graph, const Plan& plan) {
    programs_.push_back(std::make_shared<const TaskGraph>(compile(graph, plan, options).tasks));
  };
  const Graph whole = graph_of(row_.config.train.batch);
  if (!is_shortened(plan_)) return add(whole, plan_);
  ShorterGraphs graphs;
  for (const ShorterStep& step : shorter_steps(whole, plan_, graphs, graph_of))
    add(*step.graph, step.plan);
  const auto counts = shorter_counts(plan_);
  line_ = {counts[0], counts[1], plan_.micro_batches};
}

StepPrediction ReplayedRun::predict(const RuntimeProfile& profile, bool has_reasons) {
  const Cluster cluster(on_runtime(description_, profile));
  if (programs_.empty()) compile_on(cluster);
  const Deployment deployment = identity_mapping(cluster, plan_.hardware());
  PredictOptions options;
  options.prefetch_exchanges = runs_exchanges_ahead(cluster);
  options.products = row_.config.train.precision.dtype;
  options.has_timeline = false;
  options.finds_path = true;
  paths_.clear();
  std::vector<StepPrediction> steps;
  for (const auto& program : programs_) {
    options.explains = has_reasons && &program == &programs_.back();
    steps.push_back(predict_step(program, deployment, options));
    paths_.push_back(*std::move(steps.back().path));
    steps.back().path.reset();
  }
  if (steps.size() == 1) return std::move(steps.front());
  StepPrediction whole = line_.prediction(steps[0], steps[1]);
  whole.critical = std::move(steps[1].critical);
  return whole;
}

Seconds ReplayedRun::along_path(const RuntimeProfile& profile) const {
  ensure(!paths_.empty(), "a path is that of a prediction");
  const Cluster cluster(on_runtime(description_, profile));
  if (paths_.size() == 1) return paths_.front().on(cluster);
  return line_.at(paths_[0].on(cluster), paths_[1].on(cluster));
}

}  // namespace tessera
