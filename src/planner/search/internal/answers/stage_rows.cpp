#include "planner/search/internal/answers/stage_rows.h"

#include <algorithm>
#include <map>

namespace tessera {
namespace {

std::vector<const Op*> forward_ops(const Graph& graph) {
  std::vector<const Op*> ops;
  for (const Op& op : graph.ops())
    if (op.role == Role::kForward) ops.push_back(&op);
  return ops;
}

/// Where the scopes of the forward ops of a graph lie.
class Scopes {
 public:
  Scopes(const std::vector<const Op*>& ops, const std::vector<int>& stages) {
    for (size_t i = 0; i < ops.size(); ++i)
      for_each_scope(ops[i]->name, [&](const std::string& scope) {
        const auto [found, is_new] = stages_.try_emplace(scope, stages[i]);
        if (!is_new && found->second != stages[i]) found->second = kSeveral;
      });
  }

  /// The largest scope of the op that is in its stage alone, or the op.
  std::string largest(const std::string& op, int stage) const {
    std::string name = op;
    bool is_found = false;
    for_each_scope(op, [&](const std::string& scope) {
      if (is_found || stages_.at(scope) != stage) return;
      name = scope;
      is_found = true;
    });
    return name;
  }

 private:
  static constexpr int kSeveral = -1;

  /// The largest one first: "blocks", then "blocks.0".
  template <class Visit>
  static void for_each_scope(const std::string& name, const Visit& visit) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      visit(name.substr(0, dot));
  }

  std::map<std::string, int> stages_;
};

/// By stage: its run; empty for a stage without ops of the forward.
std::vector<ModuleRun> runs_of(const PlacedGraph& placed, size_t stages) {
  const std::vector<const Op*> ops = forward_ops(placed.graph);
  const std::vector<int> stage_of = stages_of_ops(placed.graph, placed);
  const Scopes scopes(ops, stage_of);
  std::vector<ModuleRun> runs(stages);
  for (size_t i = 0; i < ops.size(); ++i) {
    ModuleRun& run = runs[stage_of[i]];
    const std::string name = scopes.largest(ops[i]->name, stage_of[i]);
    if (run.first.empty()) run.first = name;
    run.last = name;
  }
  return runs;
}

void add_times(const StepPrediction& prediction, MeshIndex mesh, int64_t micro_batches,
               StageRow& row) {
  const auto ranks = static_cast<double>(row.ranks.size());
  const auto count = static_cast<double>(micro_batches);
  const double step = prediction.step.value();
  for (const RankBreakdown& rank : prediction.ranks) {
    if (std::ranges::find(row.ranks, rank.rank) == row.ranks.end()) continue;
    row.compute += rank.compute.value() / step / ranks;
    row.exposed += rank.all_exposed().value() / step / ranks;
    row.idle += rank.idle.value() / step / ranks;
    const auto found = rank.passes.find(mesh);
    if (found == rank.passes.end()) continue;
    const PassTimes& passes = found->second;
    row.forward =
        std::max(row.forward.value_or(Seconds(0)), Seconds(passes.forward.value() / count));
    row.backward =
        std::max(row.backward.value_or(Seconds(0)), Seconds(passes.backward.value() / count));
  }
}

RankMemoryNeed fullest(const StepPrediction& prediction, const std::vector<Rank>& ranks) {
  const auto missing = [&](Rank rank) {
    return prediction.memory.at(rank).all() - prediction.memory.at(rank).capacity;
  };
  return prediction.memory.at(*std::ranges::max_element(ranks, {}, missing));
}

}  // namespace

std::vector<int> stages_of_ops(const Graph& graph, const PlacedGraph& placed) {
  std::map<std::string, int, std::less<>> known;
  for (int i = 0; i < std::ssize(placed.graph.ops()); ++i)
    known.emplace(placed.graph.op({i}).name, placed.sharded.stages.ops[i]);
  std::vector<int> stages;
  for (const Op* op : forward_ops(graph)) {
    const auto found = known.find(op->name);
    stages.push_back(found != known.end() ? found->second : stages.empty() ? 0 : stages.back());
  }
  return stages;
}

std::vector<StageRow> stage_rows(const Compiled& compiled, const Plan& plan,
                                 const StepPrediction& prediction) {
  std::vector<StageRow> rows;
  if (plan.meshes.size() < 2) return rows;
  const std::vector<ModuleRun> runs = runs_of(compiled, plan.meshes.size());
  std::map<MeshIndex, size_t> row_of;
  for (const StageIndex stage : compiled.mesh_of_stage.indices()) {
    const auto at = static_cast<size_t>(stage.value());
    const auto [found, is_new] = row_of.try_emplace(compiled.mesh_of_stage[stage], rows.size());
    if (is_new) rows.emplace_back().ranks = plan.meshes[at].mesh->ranks();
    StageRow& row = rows[found->second];
    row.stages.push_back(at);
    row.name += (row.name.empty() ? "" : "+") + plan.meshes[at].name;
    row.modules.push_back(runs[at]);
  }
  for (const auto& [mesh, at] : row_of) {
    add_times(prediction, mesh, plan.micro_batches, rows[at]);
    rows[at].memory = fullest(prediction, rows[at].ranks);
  }
  return rows;
}

const StageRow& binding_row(const std::vector<StageRow>& rows) {
  return *std::ranges::max_element(rows, {}, &StageRow::compute);
}

}  // namespace tessera
