#include "training/engine/internal/execution.h"

#include "ir/models/graphs.h"
#include "training/engine/internal/steps/step_checks.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

/// The training graph, after the plan and the data were checked against it.
Graph checked_training_graph(const Network& network, const TrainingSettings& settings,
                             const Plan& plan, const RunData& data) {
  Graph graph = training_graph(network, settings.optimizer, settings.train.batch,
                               settings.train.seed, settings.train.precision);
  check_fits(plan, graph);
  for (const DatasetPtr& part : {data.train, data.held_out})
    if (part) check_fits(graph, network, *part);
  return graph;
}

RuntimeOptions with_reduction(RuntimeOptions options, Reduction reduction) {
  options.reduction = reduction;
  return options;
}

}  // namespace

Execution::Execution(const Network& network, const TrainingSettings& settings,
                     std::shared_ptr<const RunData> data, Plan given_plan,
                     const EngineOptions& options, RunState& state)
    : plan(std::move(given_plan)),
      steps(state, programs),
      programs(network, settings, plan, checked_training_graph(network, settings, plan, *data),
               {.main = options.purpose,
                .rules = options.rules,
                .check_placements = options.check_placements},
               with_reduction(options.runtime, settings.train.reduction)),
      gradients(programs),
      evaluator(programs, std::move(data)),
      generator(programs) {}

TensorMap Execution::predict(const Batch& batch) {
  const Field& samples = programs.batch_fields().front();
  const Tensor* given = batch.find(samples.name);
  const int64_t rows = given && given->shape().size() > 0 ? given->shape()[0] : 1;
  LoadedProgram& program = programs.get(Purpose::kPredict, rows);
  std::vector<Field> fields;
  std::map<std::string, const Tensor*> inputs;
  for (const TaskInput& input : program.graph().inputs) fields.push_back({input.name, input.type});
  check_prediction(fields, batch, rows);
  for (const Field& field : fields) inputs[field.name] = batch.find(field.name);
  TensorMap results;
  programs.runtime().run(program, inputs, results);
  return results;
}

void Execution::take_variables(const Execution& other) {
  for (const std::string& name : programs.runtime().variable_names())
    programs.runtime().set_variable(name, other.programs.runtime().variable(name));
}

}  // namespace tessera
