// Stages of equal ways with the parts of the data outside of them: each part has all stages on
// ranks that are neighbours.
#include <algorithm>
#include <utility>

#include "plan/preset.h"
#include "stage_search/choice_clock.h"
#include "stage_search/stage_search.h"

namespace tessera {

MeshPtr mesh_of(const PipelineChoice& choice, size_t stage, const std::vector<StageWay>& ways) {
  const Mesh& mesh = *ways[choice.stages[stage].way].mesh;
  if (!choice.has_data_outside) return mesh_from(mesh, choice.stages[stage].first);
  const int inside = mesh.size() / static_cast<int>(mesh.shape()[0]);
  const int stages = static_cast<int>(choice.stages.size());
  std::vector<Rank> ranks;
  for (const Rank rank : mesh.ranks())
    ranks.push_back((rank / inside * stages + static_cast<int>(stage)) * inside + rank % inside);
  return std::make_shared<const Mesh>(mesh.shape(), mesh.axes(), std::move(ranks), mesh.weights());
}

void StageSearch::place_data_outside(std::vector<PipelineChoice>& choices) {
  for (PipelineChoice& choice : choices)
    if (std::optional<PipelineChoice> other = with_data_outside(choice);
        other && other->seconds < choice.seconds)
      choice = *std::move(other);
  std::ranges::stable_sort(choices, {}, &PipelineChoice::seconds);
}

std::optional<PipelineChoice> StageSearch::with_data_outside(PipelineChoice choice) {
  const int way = choice.stages.front().way;
  const Mesh& mesh = *ways_[way].mesh;
  const auto is_alike = [&](const StageChoice& stage) { return stage.way == way; };
  if (choice.stages.size() < 2 || mesh.axes().front() != kDataAxis ||
      !std::ranges::all_of(choice.stages, is_alike))
    return std::nullopt;
  choice.has_data_outside = true;
  const SegmentCosts& costs = costs_of(choice.micro_batches);
  for (size_t i = 0; i < choice.stages.size(); ++i) {
    StageChoice& stage = choice.stages[i];
    const MeshPtr ranks = mesh_of(choice, i, ways_);
    const std::vector<UnitCost> units =
        ways_[way].model->costs(stage_ranks(ranks, deployment_, choice.micro_batches));
    stage.cost = costs.of(StageSums(units), way, stage.first_unit, stage.end_unit);
    if (i == 0) continue;
    const LinkCost link =
        link_between(mesh_of(choice, i - 1, ways_)->ranks(), ranks->ranks(), deployment_);
    stage.transfer = costs.transfer(way, stage.first_unit, link);
  }
  const std::optional<double> seconds = clock_seconds(choice);
  if (!seconds) return std::nullopt;
  choice.seconds = *seconds;
  return choice;
}

}  // namespace tessera
