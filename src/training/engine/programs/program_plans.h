// The plan of a run for each of its programs: training, evaluation, prediction, manual
// gradient accumulation.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"
#include "ir/models/network.h"
#include "training/config/config.h"
#include "training/engine/internal/programs/planned_program.h"

namespace tessera {

/// The section of a plan's explicit shardings for a program.
std::string_view section_of(Purpose purpose);

/// The graph of a program that is compiled when it is first used.
///   rows      of kPredict; 1 for kDecode
///   requires  kEvaluate, kPredict or kDecode
Graph graph_of(Purpose purpose, const Network& network, const TrainingSettings& settings,
               int64_t rows);

/// `plan` for such a graph beside the program that keeps the variables: the marks that name
/// something in `graph`, and variables where `main` has them. An evaluation has the micro-batches
/// of the plan, so that it fits where a step does, unless it needs all rows at once, as a metric of
/// medians does; the others have other rows, and no micro-batches.
///   main  the program that keeps the variables, as placed under `plan`
Plan plan_beside(const PlacedGraph& main, Purpose purpose, const Graph& graph, Plan plan);
/// `plan` for an evaluation that keeps its variables itself.
Plan plan_alone(const Graph& evaluation, Plan plan);

/// The evaluation program of an engine that trains, which stays loaded beside the training step.
///   training  the step as placed under `plan`
TaskGraph evaluation_tasks(const Network& network, const TrainingSettings& settings,
                           const PlacedGraph& training, const Plan& plan);

/// `options`: of all programs; their sections are not read.
/// All programs that an engine compiles under `plan`, the training step first. Models that do not
/// predict the next token have neither prediction nor decoding.
///   throws  UserError (78) as compile
std::vector<PlannedProgram> planned_programs(const Network& network,
                                             const TrainingSettings& settings, const Plan& plan,
                                             const CompileOptions& options = {});
std::vector<PlannedProgram> planned_programs(const RunConfig& config, const Plan& plan,
                                             const CompileOptions& options = {});

/// `plan` with explicit shardings instead of marks, for every program that an engine compiles under
/// it. A plan that has them already is returned as it is.
///   ensures  an engine that trains has the same task graphs with both
///   throws   UserError (78) as compile
Plan explicit_plan(const Network& network, const TrainingSettings& settings, const Plan& plan,
                   const CompileOptions& options = {});
Plan explicit_plan(const RunConfig& config, const Plan& plan, const CompileOptions& options = {});

/// `plan`, whose explicit shardings are of the training step only, with those of all other programs
/// that an engine compiles under it. They are propagated from where training keeps inputs and
/// variables.
///   requires  plan.shardings has the section kTrainSection
///   throws    UserError (78) as compile
Plan with_other_programs(const Network& network, const TrainingSettings& settings, const Plan& plan,
                         const CompileOptions& options = {});

}  // namespace tessera
