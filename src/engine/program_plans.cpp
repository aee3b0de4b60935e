#include "engine/program_plans.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "engine/graphs.h"
#include "engine/shared_variables.h"
#include "engine/step_parts.h"
#include "lower/lower.h"
#include "model/model.h"

namespace tessera {
namespace {

/// The programs beside training that a model of this kind has.
std::vector<Purpose> purposes_of(const ModelConfig& model) {
  std::vector<Purpose> purposes{Purpose::kEvaluate};
  if (objective_of(model) != Objective::kNextToken) return purposes;
  purposes.push_back(Purpose::kPredict);
  if (can_decode(model)) purposes.push_back(Purpose::kDecode);
  return purposes;
}

}  // namespace

std::string_view section_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::kTrain: return kTrainSection;
    case Purpose::kEvaluate: return "evaluate";
    case Purpose::kPredict: return "predict";
    case Purpose::kDecode: return "decode";
    case Purpose::kAccumulate: return "accumulate";
    case Purpose::kReduceGradients: return "reduce";
    case Purpose::kApplyGradients: return "apply";
  }
  throw InternalError("unknown purpose");
}

Graph graph_of(Purpose purpose, const RunConfig& config) {
  switch (purpose) {
    case Purpose::kEvaluate: return evaluation_graph(config, config.train.batch);
    case Purpose::kPredict: return prediction_graph(config);
    case Purpose::kDecode: return decoding_graph(config);
    default: throw InternalError("this program is not made on demand");
  }
}

Plan plan_beside(const Graph& main, const ShardedGraph& sharded, const Graph& graph, Plan plan) {
  plan.micro_batches = 1;
  if (!plan.shardings)
    plan.marks = with_variables_of(main, sharded, graph, marks_for(graph, plan.marks));
  return plan;
}

std::vector<PlannedProgram> planned_programs(const RunConfig& config, const Plan& plan,
                                             const RuleLookup& rules) {
  std::vector<PlannedProgram> programs;
  programs.push_back({Purpose::kTrain, training_graph(config), plan});
  const Graph training = programs.front().graph;
  const ShardedGraph sharded = placements(training, plan, {.dump = {}, .rules = rules});
  for (const Purpose purpose : purposes_of(config.model)) {
    Graph graph = graph_of(purpose, config);
    Plan beside = plan_beside(training, sharded, graph, plan);
    programs.push_back({purpose, std::move(graph), std::move(beside)});
  }
  for (PlannedProgram& part : step_parts(config, plan, training, sharded).parts)
    programs.push_back(std::move(part));
  return programs;
}

Plan resolved_plan(const RunConfig& config, const Plan& plan, const RuleLookup& rules) {
  if (plan.shardings) return plan;
  Plan result = plan;
  Shardings shardings;
  for (const PlannedProgram& program : planned_programs(config, plan, rules)) {
    const std::string name(section_of(program.purpose));
    const ShardedGraph sharded =
        placements(program.graph, program.plan, {.dump = {}, .rules = rules});
    ShardingSection section = resolve(program.graph, sharded, name, shardings);
    shardings.sections.emplace_back(name, std::move(section));
  }
  result.shardings = std::move(shardings);
  result.marks.clear();
  return result;
}

}  // namespace tessera
