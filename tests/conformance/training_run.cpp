#include "training_run.h"

#include <algorithm>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/recompute_choice.h"
#include "covering_array.h"
#include "planner/presets/presets.h"
#include "training/engine/graphs.h"

namespace tessera::conformance {
namespace {

bool is_open(const std::string& value) {
  return value.empty();
}

bool is_one_of(const std::string& value, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, value) != list.end();
}

/// The number of parts of an axis: of "2:1" two. 1 when it is open.
int64_t parts_of(const std::string& degree) {
  return is_open(degree) ? 1 : std::stoll(degree);
}

bool is_weighted(const std::string& degree) {
  return degree.find(':') != std::string::npos;
}

/// Two stages on each rank.
bool folds_stages(const std::string& schedule) {
  return is_one_of(schedule, {"interleaved", "zb-v", "v-half", "v-min"});
}

// ---- constraints ----

bool has_possible_degrees(const TrainingRun& run) {
  const int64_t ranks = parts_of(run.dp) * parts_of(run.tp) * parts_of(run.sp) * parts_of(run.pp);
  if (ranks > 8) return false;
  // Recurrences, embeddings that are joined and networks of single rows have no axis of space.
  const bool has_space = is_open(run.model) || is_one_of(run.model, {"gpt", "gpt_tied", "llama",
                                                                     "bert", "resnet", "unet"});
  return run.sp != "2" || has_space;
}

bool has_possible_pipeline(const TrainingRun& run) {
  if (is_open(run.schedule) || run.schedule == "1f1b") return true;
  if (run.pp == "1" || (run.micro_batches == "1" && run.accumulate == "1")) return false;
  // The stages are no chain: a unet and the halos of a resnet pass results over stages, towers are
  // side by side.
  const bool is_chain = !is_one_of(
      run.model, {"unet", "resnet", "two_tower", "encoder_decoder", "captions", "distances"});
  if (run.schedule != "auto" && !is_one_of(run.schedule, {"f-then-b", "eager-1f1b"}))
    if (!is_chain) return false;
  return !folds_stages(run.schedule) || !is_one_of(run.pp, {"3", "4"});
}

bool has_possible_memory(const TrainingRun& run) {
  if (is_one_of(run.zero, {"1", "2", "3"}) && (run.dp == "1")) return false;
  // The time steps of cells are one block whose results are needed all along: seconds.
  if (run.recompute == "auto" && is_one_of(run.model, {"lstm", "gru"})) return false;
  return run.device != "file" || run.optimizer != "sgd";
}

/// The verification has no tolerance for what rounding parts of a gradient to 16 bits does to their
/// sum, and little for an update that is the sign of a gradient near zero. So gradients are narrow
/// in models whose parts do not cancel, and LAMB, whose norm compares such signs, is in f32.
bool has_verified_rounding(const TrainingRun& run) {
  const bool is_narrow = is_one_of(run.precision, {"bf16", "f16"});
  if (run.optimizer == "lamb" && (is_narrow || run.gradients == "bf16")) return false;
  if (run.model == "unet" && run.precision == "f16") return false;  // gradients of norms vanish
  return run.gradients != "bf16" || is_open(run.model) ||
         is_one_of(run.model, {"gpt", "gpt_tied", "llama"});
}

bool has_possible_training(const TrainingRun& run) {
  if (!has_verified_rounding(run)) return false;
  if (run.gradients == "bf16" && !is_open(run.precision) && run.precision != "bf16") return false;
  return !is_one_of(run.trained, {"frozen", "lora"}) || is_open(run.model) ||
         is_one_of(run.model, {"gpt", "llama", "bert"});
}

bool has_possible_machine(const TrainingRun& run) {
  if (run.device == "fake_last" && run.pp == "1") return false;
  const bool is_serial = run.dp == "1" && run.tp == "1" && run.sp == "1" && run.pp == "1";
  if (is_serial &&
      (run.transport == "two_processes" ||
       is_one_of(run.all_reduce, {"one-shot", "hierarchical", "reduce-scatter-all-gather"})))
    return false;
  if (is_one_of(run.collective_matmul, {"auto", "2"}) && run.tp == "1") return false;
  return !is_one_of(run.halos, {"exchange", "recompute"}) ||
         ((run.sp == "2" || is_open(run.sp)) &&
          (is_open(run.model) || is_one_of(run.model, {"resnet", "unet"})));
}

// ---- plans ----

/// "dp=2,tp=2,pp=2,micro_batches=4,schedule=zb-h1,zero=1".
std::string preset_text(const TrainingRun& run) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    text += (text.empty() ? "" : ",") + std::string(key) + "=" + value;
  };
  const auto add_degree = [&](std::string_view key, const std::string& degree) {
    if (degree != "1") add(key, std::to_string(parts_of(degree)));
  };
  add_degree("pp", run.pp);
  add_degree("dp", run.dp);
  add_degree("sp", run.sp);
  add_degree("tp", run.tp);
  if (text.empty()) add("dp", "1");
  add("micro_batches", run.micro_batches);
  for (const auto& [key, value, common] :
       {std::tuple("accumulate", run.accumulate, "1"), std::tuple("schedule", run.schedule, "1f1b"),
        std::tuple("zero", run.zero, "0"), std::tuple("tasks", run.tasks, "role"),
        std::tuple("all_reduce", run.all_reduce, "auto"),
        std::tuple("collective_matmul", run.collective_matmul, "off"),
        std::tuple("halos", run.halos, "auto")})
    if (value != common) add(key, value);
  if (run.overlap == "none") {
    add("prefetch_mib", "0");
    add("bucket_mib", "0");
  }
  if (run.device == "file") add("offload", "state");
  return text;
}

/// The mesh with weights on the axes of the run that have some.
MeshPtr weighted(const MeshPtr& mesh, const TrainingRun& run) {
  AxisWeights weights(static_cast<size_t>(mesh->axis_count()));
  for (const auto& [axis, degree] : {std::pair("dp", run.dp), std::pair("tp", run.tp)})
    if (const std::optional<int> found = mesh->find_axis(axis); found && is_weighted(degree))
      weights[static_cast<size_t>(*found)] = {2, 1};
  return std::make_shared<const Mesh>(mesh->shape(), mesh->axes(), mesh->ranks(), weights);
}

/// A limit for "auto" between the least that a rank can keep and everything.
Bytes activation_limit(const Graph& graph, Plan plan) {
  plan.recompute = {Recompute::Kind::kAuto, {}, Bytes(int64_t{1} << 60)};
  const PlacedGraph placed = placements(graph, plan);
  const std::vector<Bytes> kept =
      decide_recompute(RecomputeRequest{placed.graph, placed.sharded, plan}).kept;
  const auto largest = static_cast<double>(std::ranges::max(kept).value());
  for (const double share : {0.8, 0.9, 0.95, 1.0}) try {
      plan.recompute.limit = Bytes(static_cast<int64_t>(share * largest));
      with_decided_recompute(graph, plan);
      return plan.recompute.limit;
    } catch (const UserError&) {  // a rank keeps at least more
    }
  throw InternalError("what is kept without recompute is a limit");
}

Recompute recompute_of(const TrainingRun& run, const Graph& graph, const Plan& plan) {
  if (run.recompute == "selective") return {Recompute::Kind::kSelective};
  if (run.recompute == "full") return {Recompute::Kind::kFull};
  if (run.recompute == "everything") return {Recompute::Kind::kPatterns, {"*"}};
  if (run.recompute == "auto") return {Recompute::Kind::kAuto, {}, activation_limit(graph, plan)};
  return {};
}

TrainingRun run_of(const Row& row) {
  TrainingRun run;
  const std::span<const RunFactor> factors = run_factors();
  for (size_t i = 0; i < factors.size(); ++i)
    run.*factors[i].value = row[i] == kOpen ? "" : factors[i].values[static_cast<size_t>(row[i])];
  return run;
}

}  // namespace

std::span<const RunFactor> run_factors() {
  static const std::vector<RunFactor> kFactors = {
      {"model", &TrainingRun::model, small_models()},
      {"dp", &TrainingRun::dp, {"1", "2", "3", "4", "2:1"}},
      {"tp", &TrainingRun::tp, {"1", "2", "3", "4", "2:1"}},
      {"sp", &TrainingRun::sp, {"1", "2"}},
      {"pp", &TrainingRun::pp, {"1", "2", "3", "4"}},
      {"micro_batches", &TrainingRun::micro_batches, {"1", "2", "4"}},
      {"accumulate", &TrainingRun::accumulate, {"1", "2"}},
      {"schedule",
       &TrainingRun::schedule,
       {"1f1b", "f-then-b", "eager-1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half",
        "v-min", "auto"}},
      {"zero", &TrainingRun::zero, {"0", "1", "2", "3"}},
      {"recompute", &TrainingRun::recompute, {"none", "selective", "full", "auto", "everything"}},
      {"precision", &TrainingRun::precision, {"f32", "bf16", "f16"}},
      {"gradients", &TrainingRun::gradients, {"f32", "bf16"}},
      {"optimizer", &TrainingRun::optimizer, {"adamw", "adam", "sgd", "momentum", "lamb", "muon"}},
      {"trained", &TrainingRun::trained, {"all", "frozen", "lora"}},
      {"device", &TrainingRun::device, {"host", "fake", "fake_last", "file"}},
      {"transport", &TrainingRun::transport, {"threads", "two_processes"}},
      {"tasks", &TrainingRun::tasks, {"role", "layer", "op"}},
      {"all_reduce",
       &TrainingRun::all_reduce,
       {"auto", "one-shot", "hierarchical", "reduce-scatter-all-gather"}},
      {"collective_matmul", &TrainingRun::collective_matmul, {"off", "auto", "2"}},
      {"overlap", &TrainingRun::overlap, {"default", "none"}},
      {"halos", &TrainingRun::halos, {"auto", "exchange", "recompute"}}};
  return kFactors;
}

bool is_possible(const TrainingRun& run) {
  return has_possible_degrees(run) && has_possible_pipeline(run) && has_possible_memory(run) &&
         has_possible_training(run) && has_possible_machine(run);
}

std::vector<TrainingRun> covering_runs() {
  CoveringRequest request;
  for (const RunFactor& factor : run_factors())
    request.factors.push_back({std::string(factor.name), factor.values});
  request.is_allowed = [](const Row& row) { return is_possible(run_of(row)); };
  std::vector<TrainingRun> runs;
  for (const Row& row : covering_array(request)) runs.push_back(run_of(row));
  return runs;
}

std::string to_text(const TrainingRun& run) {
  std::string text = run.model;
  for (const RunFactor& factor : run_factors())
    if (factor.value != &TrainingRun::model && run.*factor.value != factor.values.front())
      text += " " + std::string(factor.name) + "=" + run.*factor.value;
  return text;
}

std::ostream& operator<<(std::ostream& out, const TrainingRun& run) {
  return out << to_text(run);
}

SmallModel model_of(const TrainingRun& run) {
  ModelChanges changes{.precision = parse_dtype(run.precision),
                       .gradients = parse_dtype(run.gradients),
                       .trained = run.trained};
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam, OptimizerKind::kAdamW,
        OptimizerKind::kLamb, OptimizerKind::kMuon})
    if (tessera::to_text(kind) == run.optimizer) changes.optimizer = kind;
  return small_model(run.model, changes);
}

Plan plan_of(const TrainingRun& run, const Graph& graph) {
  Plan plan = preset_plan(parse_preset(preset_text(run)), graph);
  for (NamedMesh& mesh : plan.meshes) {
    if (is_weighted(run.dp) || is_weighted(run.tp)) mesh.mesh = weighted(mesh.mesh, run);
    if (run.device == "fake") mesh.device = DeviceKind::kFake;
  }
  if (run.device == "fake_last") {
    const std::vector<Rank> last = plan.meshes.back().mesh->ranks();
    for (NamedMesh& mesh : plan.meshes)
      if (mesh.mesh->ranks() == last) mesh.device = DeviceKind::kFake;
  }
  plan.recompute = recompute_of(run, graph, plan);
  return plan;
}

TrainingRun without_neutral_decisions(const TrainingRun& given) {
  TrainingRun run = given;
  const TrainingRun serial;
  for (std::string TrainingRun::* value :
       {&TrainingRun::recompute, &TrainingRun::device, &TrainingRun::transport, &TrainingRun::tasks,
        &TrainingRun::overlap})
    run.*value = serial.*value;
  if (!folds_stages(run.schedule)) run.schedule = serial.schedule;
  // In these runs the losses with recomputed values differ in their last bits: adapters in 16 bits
  // on tensor-parallel ranks, and a resnet that computes everything again.
  const bool has_narrow_adapters = run.trained == "lora" && run.precision != serial.precision;
  const bool recomputes_resnet = run.model == "resnet" && given.recompute == "everything";
  if (has_narrow_adapters || recomputes_resnet) run.recompute = given.recompute;
  return run;
}

}  // namespace tessera::conformance
