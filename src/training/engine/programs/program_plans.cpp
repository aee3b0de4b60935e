#include "training/engine/programs/program_plans.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "sharding/propagation/micro_batches.h"
#include "training/engine/internal/programs/shared_variables.h"
#include "training/engine/internal/steps/step_parts.h"

namespace tessera {
namespace {

/// The programs beside training that a network has.
std::vector<Purpose> purposes_of(const Network& network) {
  std::vector<Purpose> purposes{Purpose::kEvaluate};
  if (!network.language) return purposes;
  purposes.push_back(Purpose::kPredict);
  if (network.language->can_decode) purposes.push_back(Purpose::kDecode);
  return purposes;
}

/// The plan of an evaluation, with one micro-batch where the program needs all rows at once.
Plan with_possible_micro_batches(const Graph& evaluation, Plan plan) {
  if (plan.micro_batches == 1) return plan;
  CompileOptions options;
  options.section = section_of(Purpose::kEvaluate);
  options.check_placements = options.verify = false;
  try {
    compile_if(evaluation, plan, options,
               {.in_memory = [](const PlannedMemory&) { return false; }});
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    plan.micro_batches = plan.accumulate = 1;
  }
  return plan;
}

/// The placement of a value of a placed program, as a mark has it.
Mark mark_of(const PlacedGraph& placed, const Plan& plan, ValueId value) {
  DistAttr attr = placed.sharded.at(value);
  if (plan.micro_batches > 1) {  // propagation adds them, where a program has them
    const int stage = placed.sharded.stages.values[value.index];
    attr = micro_batch_placement(attr, plan.placed()[stage].mesh).attr;
  }
  return keep_at(placed.graph.value(value).name, attr, owner_mesh(placed.sharded, value));
}

/// `plan`, of the evaluation, with its results where training has them: it takes no more memory.
Plan with_results_of(const PlacedGraph& training, const Plan& trained, const Graph& evaluation,
                     Plan plan) {
  for (const Op& op : training.graph.ops()) {
    if (op.role != Role::kForward) continue;
    for (const ValueId value : op.outputs) {
      const auto same = evaluation.find_value(training.graph.value(value).name);
      if (!same || !(evaluation.type(*same) == training.graph.type(value))) continue;
      if (DistAttr attr = training.sharded.at(value); attr.partial.empty())
        plan.marks.push_back(mark_of(training, trained, value));
    }
  }
  return plan;
}

/// The section of the evaluation of a plan whose training has explicit shardings.
ShardingSection evaluation_section(const PlacedGraph& training, const Plan& trained,
                                   const PlannedProgram& evaluation, const CompileOptions& options,
                                   Shardings& shardings) {
  const std::string name(section_of(Purpose::kEvaluate));
  try {
    const Plan divided = with_results_of(training, trained, evaluation.graph, evaluation.plan);
    return explicit_section(evaluation.graph, divided, options, name, shardings);
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return explicit_section(evaluation.graph, evaluation.plan, options, name, shardings);
  }
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

Graph graph_of(Purpose purpose, const Network& network, const TrainingSettings& settings,
               int64_t rows) {
  const TrainConfig& train = settings.train;
  const auto forward = [&](ForwardPurpose of, int64_t of_rows) {
    return forward_graph(network, of, of_rows, train.seed, train.precision);
  };
  switch (purpose) {
    case Purpose::kEvaluate: return forward(ForwardPurpose::kEvaluation, train.batch);
    case Purpose::kPredict: return forward(ForwardPurpose::kPrediction, rows);
    case Purpose::kDecode: return forward(ForwardPurpose::kDecoding, rows);
    default: throw InternalError("this program is not made on demand");
  }
}

Plan plan_beside(const PlacedGraph& main, Purpose purpose, const Graph& graph, Plan plan) {
  if (purpose != Purpose::kEvaluate) plan.micro_batches = plan.accumulate = 1;
  if (!plan.shardings)
    plan.marks =
        with_stages_of(main, graph, with_variables_of(main, graph, marks_for(graph, plan.marks)));
  return with_possible_micro_batches(graph, std::move(plan));
}

Plan plan_alone(const Graph& evaluation, Plan plan) {
  if (!plan.shardings) plan.marks = marks_for(evaluation, plan.marks);
  return with_possible_micro_batches(evaluation, std::move(plan));
}

TaskGraph evaluation_tasks(const Network& network, const TrainingSettings& settings,
                           const PlacedGraph& training, const Plan& plan) {
  const Graph graph = graph_of(Purpose::kEvaluate, network, settings, 1);
  CompileOptions options;
  options.section = section_of(Purpose::kEvaluate);
  return compile(graph, plan_beside(training, Purpose::kEvaluate, graph, plan), options).tasks;
}

std::vector<PlannedProgram> planned_programs(const Network& network,
                                             const TrainingSettings& settings, const Plan& given,
                                             const CompileOptions& options) {
  std::vector<PlannedProgram> programs;
  Graph step = training_graph(network, settings.optimizer, settings.train.batch,
                              settings.train.seed, settings.train.precision);
  const Plan plan = with_decided_recompute(step, given, options);
  programs.push_back({Purpose::kTrain, std::move(step), plan});
  const PlacedGraph training = placements(programs.front().graph, plan, options);
  for (const Purpose purpose : purposes_of(network)) {
    Graph graph = graph_of(purpose, network, settings, 1);
    Plan beside = plan_beside(training, purpose, graph, plan);
    programs.push_back({purpose, std::move(graph), std::move(beside)});
  }
  for (PlannedProgram& part : step_parts(network, settings, plan, training).parts)
    programs.push_back(std::move(part));
  return programs;
}

std::vector<PlannedProgram> planned_programs(const RunConfig& config, const Plan& plan,
                                             const CompileOptions& options) {
  return planned_programs(network_of(config.model), training_settings(config), plan, options);
}

Plan explicit_plan(const Network& network, const TrainingSettings& settings, const Plan& plan,
                   const CompileOptions& options) {
  if (plan.shardings) return plan;
  Plan result = plan;
  Shardings shardings;
  for (const PlannedProgram& program : planned_programs(network, settings, plan, options)) {
    const std::string name(section_of(program.purpose));
    result.recompute = program.plan.recompute;
    ShardingSection section =
        explicit_section(program.graph, program.plan, options, name, shardings);
    shardings.sections.emplace_back(name, std::move(section));
  }
  result.shardings = std::move(shardings);
  result.marks.clear();
  return result;
}

Plan explicit_plan(const RunConfig& config, const Plan& plan, const CompileOptions& options) {
  return explicit_plan(network_of(config.model), training_settings(config), plan, options);
}

Plan with_other_programs(const Network& network, const TrainingSettings& settings, const Plan& plan,
                         const CompileOptions& options) {
  const Graph training = training_graph(network, settings.optimizer, settings.train.batch,
                                        settings.train.seed, settings.train.precision);
  const PlacedGraph placed = placements(training, plan, options);
  Plan by_marks = plan;
  by_marks.shardings.reset();
  const auto keep = [&](ValueId value) { by_marks.marks.push_back(mark_of(placed, plan, value)); };
  for (ValueId input : placed.graph.inputs()) keep(input);
  for (const Variable& variable : placed.graph.variables()) keep(variable.value);
  by_marks.marks = with_stages_of(placed, training, std::move(by_marks.marks));
  Plan result = plan;
  for (const PlannedProgram& program : planned_programs(network, settings, by_marks, options)) {
    const std::string name(section_of(program.purpose));
    if (result.shardings->find(name)) continue;
    ShardingSection section =
        program.purpose == Purpose::kEvaluate
            ? evaluation_section(placed, plan, program, options, *result.shardings)
            : explicit_section(program.graph, program.plan, options, name, *result.shardings);
    result.shardings->sections.emplace_back(name, std::move(section));
  }
  return result;
}

}  // namespace tessera
