// Stages of equal shardings with dp as the outermost axis of the ranks: each part has all stages on
// ranks that are neighbours.
#include <algorithm>
#include <utility>

#include "compiler/plan/preset.h"
#include "planner/pipeline/pipeline_simulator.h"
#include "planner/pipeline/stage_search.h"

namespace tessera {

MeshPtr mesh_of(const PipelineChoice& choice, size_t stage,
                const std::vector<StageSharding>& stage_shardings) {
  const Mesh& mesh = *stage_shardings[choice.stages[stage].stage_sharding].mesh;
  if (!choice.is_dp_outermost) return mesh_from(mesh, choice.stages[stage].first);
  const int inside = mesh.size() / static_cast<int>(mesh.shape()[0]);
  const int stages = static_cast<int>(choice.stages.size());
  std::vector<Rank> ranks;
  for (const Rank rank : mesh.ranks())
    ranks.push_back((rank / inside * stages + static_cast<int>(stage)) * inside + rank % inside);
  return std::make_shared<const Mesh>(mesh.shape(), mesh.axes(), std::move(ranks), mesh.weights());
}

void StageSearch::try_dp_outermost(std::vector<PipelineChoice>& choices) {
  for (PipelineChoice& choice : choices)
    if (std::optional<PipelineChoice> other = with_dp_outermost(choice);
        other && other->seconds < choice.seconds)
      choice = *std::move(other);
  std::ranges::stable_sort(choices, {}, &PipelineChoice::seconds);
}

std::optional<PipelineChoice> StageSearch::with_dp_outermost(PipelineChoice choice) {
  const int stage_sharding = choice.stages.front().stage_sharding;
  const Mesh& mesh = *stage_shardings_[stage_sharding].mesh;
  const auto is_alike = [&](const StageChoice& stage) {
    return stage.stage_sharding == stage_sharding;
  };
  if (choice.stages.size() < 2 || mesh.axes().front() != kDataAxis ||
      !std::ranges::all_of(choice.stages, is_alike))
    return std::nullopt;
  choice.is_dp_outermost = true;
  const SegmentCosts& costs = costs_of(choice.micro_batches);
  for (size_t i = 0; i < choice.stages.size(); ++i) {
    StageChoice& stage = choice.stages[i];
    const MeshPtr ranks = mesh_of(choice, i, stage_shardings_);
    const std::vector<UnitCost> units = stage_shardings_[stage_sharding].model->costs(
        stage_ranks(ranks, deployment_, choice.micro_batches));
    stage.cost = costs.price(StageSums(units), stage_sharding, stage.first_unit, stage.end_unit);
    if (i == 0) continue;
    const LinkCost link = link_between(mesh_of(choice, i - 1, stage_shardings_)->ranks(),
                                       ranks->ranks(), deployment_);
    stage.transfer = costs.transfer(stage_sharding, stage.first_unit, link);
  }
  const std::optional<double> seconds = simulated_seconds(choice);
  if (!seconds) return std::nullopt;
  choice.seconds = *seconds;
  return choice;
}

}  // namespace tessera
