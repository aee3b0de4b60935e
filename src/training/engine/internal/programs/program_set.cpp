#include "training/engine/internal/programs/program_set.h"

#include "ir/models/graphs.h"
#include "sharding/propagation/mesh_assignment.h"
#include "task_graph/tasks/input_rows.h"
#include "training/engine/internal/programs/shared_variables.h"

namespace tessera {

CompileOptions options_for(Purpose purpose, const ProgramOptions& options) {
  return {.dump = {},
          .rules = options.rules,
          .section = section_of(purpose),
          .verify_passes = options.verify_passes,
          .check_placements = options.check_placements};
}

std::vector<Field> fields_of(const Graph& graph) {
  std::vector<Field> fields;
  for (const std::string& name : data_inputs(graph))
    fields.push_back({name, graph.type(*graph.find_value(name))});
  return fields;
}

ProgramSet::ProgramSet(const Network& network, const TrainingSettings& settings, const Plan& plan,
                       Graph training, ProgramOptions options, RuntimeOptions runtime)
    : network_(network),
      settings_(settings),
      plan_(plan),
      options_(std::move(options)),
      training_(std::move(training)),
      evaluation_(forward_graph(network, ForwardPurpose::kEvaluation, settings.train.batch,
                                settings.train.seed, settings.train.precision)),
      batch_fields_(fields_of(training_)),
      units_per_batch_(tessera::units_per_batch(network, training_)),
      runtime_(plan.ranks(), std::move(runtime)) {
  check_variables(network, training_, evaluation_);
  main_ = std::make_shared<const Compiled>(compile_main());
  // The task graph is a part of `main_` and keeps all of it alive.
  loaded_[{options_.main, 1}] =
      &runtime_.load(std::shared_ptr<const TaskGraph>(main_, &main_->tasks));
}

Compiled ProgramSet::compile_main() const {
  const CompileOptions options = options_for(options_.main, options_);
  if (options_.main == Purpose::kTrain) return compile(training_, plan_, options);
  if (!plan_.shardings) {
    const Meshes meshes = plan_.placed();
    // Refuses marks that name nothing in the training graph.
    resolve_marks(training_, meshes, assign_meshes(training_, meshes, plan_.marks), plan_.marks);
  }
  return compile(evaluation_, plan_alone(evaluation_, plan_), options);
}

void ProgramSet::initialize() {
  runtime_.initialize(*loaded_.at({options_.main, 1}), settings_.train.seed);
}

LoadedProgram& ProgramSet::get(Purpose purpose, int64_t rows) {
  LoadedProgram*& program = loaded_[{purpose, rows}];
  if (program) return *program;
  const Graph graph = graph_of(purpose, network_, settings_, rows);
  if (purpose == Purpose::kPredict) check_variables(network_, training_, graph);
  Compiled compiled =
      compile(graph, plan_beside(*main_, purpose, graph, plan_), options_for(purpose, options_));
  program = &runtime_.load(std::make_shared<const TaskGraph>(std::move(compiled.tasks)));
  // This initializes the caches of the decoder, because all other variables are set.
  if (purpose == Purpose::kDecode) runtime_.initialize(*program, settings_.train.seed);
  return *program;
}

std::vector<Range> ProgramSet::rows_read_here(Purpose purpose, int64_t rows) {
  return rows_read(get(purpose, rows).graph(), runtime_.local_ranks());
}

}  // namespace tessera
