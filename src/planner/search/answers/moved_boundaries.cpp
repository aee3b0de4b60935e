#include "planner/search/answers/moved_boundaries.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "planner/pipeline/layer_sequence.h"
#include "planner/presets/presets.h"

namespace tessera {
namespace {

/// A boundary, and the forward op, by position, at which its stage would begin.
struct Move {
  size_t stage = 0;
  int begin = 0, moved = 0;
};

/// The positions at which stages begin; empty where the stages are no runs of ops in their order.
std::vector<int> begins_of(const std::vector<int>& stages, size_t count) {
  std::vector<int> begins{0};
  for (int i = 1; i < std::ssize(stages); ++i) {
    if (stages[i] == stages[i - 1]) continue;
    if (stages[i] != stages[i - 1] + 1) return {};
    begins.push_back(i);
  }
  if (begins.size() != count || stages.front() != 0) return {};
  return begins;
}

/// Those that leave a unit to the stage. A unit begins wherever a stage does.
std::vector<Move> moves_of(const Graph& graph, const std::vector<int>& begins,
                           const StageRow& row) {
  const auto stages = static_cast<int>(begins.size());
  const LayerSequence line = layer_sequence(graph, stages, {begins.begin() + 1, begins.end()});
  std::vector<Move> moves;
  for (const size_t stage : row.stages) {
    const int begin = begins[stage];
    const auto first = std::ranges::find(line.begins, begin);
    const auto end = stage + 1 < begins.size() ? std::ranges::find(line.begins, begins[stage + 1])
                                               : line.begins.end();
    if (end - first < 2) continue;
    if (stage > 0) moves.push_back({stage, begin, *std::next(first)});
    if (end != line.begins.end()) moves.push_back({stage + 1, *end, *std::prev(end)});
  }
  return moves;
}

Candidate moved(const Graph& graph, const Candidate& candidate, std::vector<int> stages,
                const Move& move) {
  const auto stage = static_cast<int>(move.stage);
  for (int i = 0; i < std::ssize(stages); ++i) {
    if (i >= move.begin && i < move.moved) stages[i] = stage - 1;
    if (i >= move.moved && i < move.begin) stages[i] = stage;
  }
  Plan decisions = candidate.plan;
  decisions.marks.clear();
  decisions.shardings.reset();
  return {candidate.source, candidate.name,
          staged_plan(graph, stages, std::move(decisions), *candidate.zero)};
}

}  // namespace

std::vector<MovedBoundary> moved_boundaries(const PlanRequest& request,
                                            const EvaluatedCandidate& found,
                                            const PlacedGraph& placed, const StageRow& row) {
  const Candidate& candidate = found.candidate;
  if (candidate.zero.value_or(2) > 1 || !candidate.shorter.empty()) return {};
  const std::vector<int> stages = stages_of_ops(request.graph, placed);
  const std::vector<int> begins = begins_of(stages, candidate.plan.meshes.size());
  if (begins.empty()) return {};
  const std::vector<Move> moves = moves_of(request.graph, begins, row);
  std::vector<Candidate> candidates;
  for (const Move& move : moves) {
    candidates.push_back(moved(request.graph, candidate, stages, move));
    candidates.back().name = std::to_string(candidates.size());
  }
  const Evaluations evaluations = evaluate(request, std::move(candidates));
  std::vector<const std::string*> names;
  for (const Op& op : request.graph.ops())
    if (op.role == Role::kForward) names.push_back(&op.name);
  std::vector<MovedBoundary> result;
  for (size_t i = 0; i < moves.size(); ++i) {
    result.push_back({moves[i].stage, *names[moves[i].begin - 1], *names[moves[i].moved - 1]});
    for (const EvaluatedCandidate& each : evaluations.evaluated)
      if (each.candidate.name == std::to_string(i + 1) && each.fits())
        result.back().step = each.step();
  }
  return result;
}

}  // namespace tessera
