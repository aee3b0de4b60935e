#include "engine/program_set.h"

#include "engine/graphs.h"
#include "engine/run_data.h"
#include "engine/shared_variables.h"
#include "shard/mesh_assignment.h"

namespace tessera {

CompileOptions options_for(Purpose purpose, const ProgramOptions& options) {
  return {.dump = {},
          .rules = options.rules,
          .section = section_of(purpose),
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

const Graph& ProgramSet::main_graph() const {
  return options_.main == Purpose::kTrain ? training_ : evaluation_;
}

Compiled ProgramSet::compile_main() const {
  const CompileOptions options = options_for(options_.main, options_);
  if (options_.main == Purpose::kTrain) return compile(training_, plan_, options);
  Plan plan = plan_;
  plan.micro_batches = 1;
  if (!plan.shardings) {
    const Meshes meshes = plan.placed();
    // Refuses marks that name nothing in the training graph.
    resolve_marks(training_, meshes, assign_meshes(training_, meshes, plan.marks), plan.marks);
    plan.marks = marks_for(evaluation_, plan.marks);
  }
  return compile(evaluation_, plan, options);
}

void ProgramSet::initialize() {
  runtime_.initialize(*loaded_.at(options_.main), config_.train.seed);
}

LoadedProgram& ProgramSet::get(Purpose purpose) {
  LoadedProgram*& program = loaded_[purpose];
  if (program) return *program;
  const Graph graph = graph_of(purpose, config_);
  Compiled compiled = compile(graph, plan_beside(main_graph(), main_->sharded, graph, plan_),
                              options_for(purpose, options_));
  program = &runtime_.load(std::make_shared<const TaskGraph>(std::move(compiled.tasks)));
  // This initializes the caches of the decoder, because all other variables are set.
  if (purpose == Purpose::kDecode) runtime_.initialize(*program, config_.train.seed);
  return *program;
}

}  // namespace tessera
