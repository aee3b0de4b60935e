#include "planner/search/internal/sources/stage_plans.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/plan/preset.h"
#include "planner/pipeline/stage_search.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

std::string recompute_suffix(Recompute::Kind kind) {
  switch (kind) {
    case Recompute::Kind::kNone: return "";
    case Recompute::Kind::kSelective: return ", recompute=selective";
    case Recompute::Kind::kFull: return ", recompute=full";
    case Recompute::Kind::kAuto: return ", recompute=auto";
    case Recompute::Kind::kPatterns: return ", recompute of patterns";
  }
  throw InternalError("unknown kind of recompute");
}

/// Of a long list the first two, and the last one.
std::vector<std::string> shortened(std::vector<std::string> parts) {
  if (parts.size() <= kSearchPolicy.named_parts) return parts;
  return {std::move(parts[0]), std::move(parts[1]), "...", std::move(parts.back())};
}

std::string name_of(const PipelineChoice& choice, const std::vector<StageSharding>& stage_shardings,
                    const MemoryStrategy& memory_strategy) {
  std::vector<std::pair<std::string, int>> runs;  // stages of one mesh after each other
  for (const StageChoice& stage : choice.stages) {
    std::string mesh = to_text(*mesh_from(*stage_shardings[stage.stage_sharding].mesh, 0));
    std::ranges::replace(mesh, ' ', ',');
    if (runs.empty() || runs.back().first != mesh) runs.emplace_back(mesh, 0);
    ++runs.back().second;
  }
  std::vector<std::string> parts;
  for (const auto& [mesh, count] : runs)
    parts.push_back(count > 1 ? std::to_string(count) + " x " + mesh : mesh);
  parts = shortened(std::move(parts));
  const bool is_short = std::ranges::count(parts, "...") > 0;
  return (is_short ? std::to_string(choice.stages.size()) + " stages " : "stages ") +
         join(parts, " | ") + ", micro_batches=" + std::to_string(choice.micro_batches) +
         (choice.micro_batches > 1 ? ", " + std::string(to_text(choice.schedule)) : "") +
         (choice.is_dp_outermost ? ", dp outside" : "") +
         recompute_suffix(memory_strategy.recompute.kind) +
         (memory_strategy.zero > 0 ? ", zero=" + std::to_string(memory_strategy.zero) : "");
}

/// The plan with the stages of a choice and its recomputation.
///   throws  UserError (78) when the model cannot have it
Plan marked_plan_of(const PlanRequest& request, const Plan& decisions, const PipelineChoice& choice,
                    const StageDivisions& divisions) {
  Plan plan = decisions;
  const MemoryStrategy& memory_strategy = divisions.memory_strategy();
  plan.recompute = memory_strategy.recompute;
  plan.name = name_of(choice, divisions.stage_shardings(), memory_strategy);
  plan.micro_batches = choice.micro_batches;
  if (choice.micro_batches > 1) plan.schedule = choice.schedule;
  std::vector<int> stages;
  std::vector<int> begins;
  for (const StageChoice& stage : choice.stages) {
    const size_t at = plan.meshes.size();
    plan.meshes.push_back(
        {"stage" + std::to_string(at), mesh_of(choice, at, divisions.stage_shardings())});
    plan.meshes.back().hardware = stage.hardware;
    begins.push_back(divisions.sequence().begins[stage.first_unit]);
  }
  for (const Op& op : request.graph.ops()) {
    if (op.role != Role::kForward) continue;
    const auto at = static_cast<int>(stages.size());
    stages.push_back(static_cast<int>(std::ranges::upper_bound(begins, at) - begins.begin()) - 1);
  }
  plan = staged_plan(request.graph, stages, std::move(plan), memory_strategy.zero);
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : plan.meshes) meshes.push_back(mesh.mesh);
  plan.cost = cost_of(identity_mapping(request.cluster, plan.hardware()), meshes);
  return plan;
}

/// Where tensor parallelism crosses machines hardly any ranks behave alike, and each one that does
/// not is simulated. nullopt where the step can be simulated.
std::optional<EstimatedStep> estimate_of(const PlanRequest& request, const PipelineChoice& choice,
                                         const StageDivisions& divisions) {
  const Cluster& cluster = request.cluster;
  const auto devices = static_cast<int64_t>(cluster.devices_of(cluster.machine(0)).size());
  const auto crosses_machines = [&](const StageChoice& stage) {
    const Mesh& mesh = *divisions.stage_shardings()[stage.stage_sharding].mesh;
    const std::optional<int> axis = mesh.find_axis(kTensorAxis);
    return axis && mesh.shape()[*axis] > devices;
  };
  if (std::ranges::none_of(choice.stages, crosses_machines)) return std::nullopt;
  EstimatedStep estimate{Seconds(choice.seconds), {}};
  for (const StageChoice& stage : choice.stages)
    estimate.busy.emplace_back(
        static_cast<double>(choice.micro_batches) * stage.cost.micro_batch() + stage.cost.once);
  return estimate;
}

}  // namespace

Plan explicit_plan(const PlanRequest& request, Plan marked) {
  CompileOptions options;
  options.rewrites = request.rewrites;
  return with_explicit_shardings(request.graph, std::move(marked), options);
}

std::optional<Candidate> candidate_of(const PlanRequest& request, const Plan& decisions,
                                      const PipelineChoice& choice,
                                      const StageDivisions& divisions) {
  try {
    Plan marked = marked_plan_of(request, decisions, choice, divisions);
    Candidate candidate{Candidate::Source::kPipeline, {}, explicit_plan(request, marked)};
    candidate.marked = std::make_shared<const Plan>(std::move(marked));
    candidate.zero = divisions.memory_strategy().zero;
    if (!request.graph_of_rows || !is_predicted(request.graph, candidate.plan)) return candidate;
    candidate.shorter = shorter_steps(request.graph, candidate.plan, *request.shorter_graphs,
                                      request.graph_of_rows);
    if (candidate.plan.rank_count() > kSearchPolicy.many_ranks)
      candidate.estimate = estimate_of(request, choice, divisions);
    return candidate;
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return std::nullopt;
  }
}

}  // namespace tessera
