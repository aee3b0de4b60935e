#include "engine/program_set.h"

#include "base/error.h"
#include "engine/graphs.h"
#include "engine/run_data.h"
#include "engine/shared_variables.h"
#include "shard/mesh_assignment.h"

namespace tessera {

CompileOptions common_options(const ProgramOptions& options) {
  return {.dump = {},
          .rules = options.rules,
          .disabled_passes = options.disabled_passes,
          .verify_passes = options.verify_passes,
          .check_placements = options.check_placements};
}

ProgramSet::ProgramSet(const RunConfig& config, const Plan& plan, Graph training,
                       ProgramOptions options, RuntimeOptions runtime)
    : config_(config),
      plan_(plan),
      options_(std::move(options)),
      training_(std::move(training)),
      runtime_(plan.ranks(), std::move(runtime)) {
  for (const std::string& name : data_inputs(training_))
    batch_fields_.push_back({name, training_.type(*training_.find_value(name))});
  if (options_.main == Purpose::kEvaluate)
    evaluation_ = evaluation_graph(config_, config_.train.batch);
  main_ = std::make_shared<const Compiled>(compile_main());
  // The task graph is a part of `main_` and keeps all of it alive.
  loaded_[options_.main] = &runtime_.load(std::shared_ptr<const TaskGraph>(main_, &main_->tasks));
}

Compiled ProgramSet::compile_main() const {
  if (options_.main == Purpose::kTrain) return compile(training_, plan_, common_options(options_));
  const Meshes meshes = plan_.placed();
  // Refuses marks that name nothing in the training graph.
  resolve_marks(training_, meshes, assign_meshes(training_, meshes, plan_.marks), plan_.marks);
  return compile(evaluation_, meshes, marks_for(evaluation_, plan_.marks),
                 common_options(options_));
}

Graph ProgramSet::graph_of(Purpose purpose) const {
  switch (purpose) {
    case Purpose::kEvaluate: return evaluation_graph(config_, config_.train.batch);
    case Purpose::kPredict: return prediction_graph(config_);
    case Purpose::kDecode: return decoding_graph(config_);
    default: throw InternalError("this program is not made on demand");
  }
}

void ProgramSet::initialize() {
  runtime_.initialize(*loaded_.at(options_.main), config_.train.seed);
}

LoadedProgram& ProgramSet::get(Purpose purpose) {
  LoadedProgram*& program = loaded_[purpose];
  if (program) return *program;
  const Graph graph = graph_of(purpose);
  const std::vector<Mark> marks = with_variables_of(*main_, graph, marks_for(graph, plan_.marks));
  Compiled compiled = compile(graph, plan_.placed(), marks, common_options(options_));
  program = &runtime_.load(std::make_shared<const TaskGraph>(std::move(compiled.tasks)));
  // This initializes the caches of the decoder, because all other variables are set.
  if (purpose == Purpose::kDecode) runtime_.initialize(*program, config_.train.seed);
  return *program;
}

}  // namespace tessera
