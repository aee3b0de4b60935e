#include "engine/program_set.h"

#include "base/error.h"
#include "engine/shared_variables.h"
#include "network/graphs.h"
#include "shard/mesh_assignment.h"

namespace tessera {

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
                                settings.train.seed)),
      batch_fields_(fields_of(training_)),
      units_per_batch_(tessera::units_per_batch(network, training_)),
      runtime_(plan.ranks(), std::move(runtime)) {
  check_variables(network, training_, evaluation_);
  main_ = std::make_shared<const Compiled>(compile_main());
  // The task graph is a part of `main_` and keeps all of it alive.
  loaded_[{options_.main, 1}] =
      &runtime_.load(std::shared_ptr<const TaskGraph>(main_, &main_->tasks));
}

const Graph& ProgramSet::main_graph() const {
  return options_.main == Purpose::kTrain ? training_ : evaluation_;
}

Compiled ProgramSet::compile_main() const {
  if (options_.main == Purpose::kTrain)
    return compile(
        training_, plan_,
        {.dump = {}, .rules = options_.rules, .check_placements = options_.check_placements});
  const Meshes meshes = plan_.placed();
  // Refuses marks that name nothing in the training graph.
  resolve_marks(training_, meshes, assign_meshes(training_, meshes, plan_.marks), plan_.marks);
  return compile(evaluation_, meshes, marks_for(evaluation_, plan_.marks),
                 {.dump = {}, .rules = options_.rules});
}

Graph ProgramSet::graph_of(Purpose purpose, int64_t rows) const {
  const uint64_t seed = settings_.train.seed;
  switch (purpose) {
    case Purpose::kEvaluate: return evaluation_;
    case Purpose::kPredict: return forward_graph(network_, ForwardPurpose::kPrediction, rows, seed);
    case Purpose::kDecode: return forward_graph(network_, ForwardPurpose::kDecoding, rows, seed);
    default: throw InternalError("this program is not made on demand");
  }
}

void ProgramSet::initialize() {
  runtime_.initialize(*loaded_.at({options_.main, 1}), settings_.train.seed);
}

LoadedProgram& ProgramSet::get(Purpose purpose, int64_t rows) {
  LoadedProgram*& program = loaded_[{purpose, rows}];
  if (program) return *program;
  const Graph graph = graph_of(purpose, rows);
  if (purpose == Purpose::kPredict) check_variables(network_, training_, graph);
  const std::vector<Mark> marks =
      with_variables_of(main_graph(), *main_, graph, marks_for(graph, plan_.marks));
  Compiled compiled = compile(graph, plan_.placed(), marks);
  program = &runtime_.load(std::make_shared<const TaskGraph>(std::move(compiled.tasks)));
  // This initializes the caches of the decoder, because all other variables are set.
  if (purpose == Purpose::kDecode) runtime_.initialize(*program, settings_.train.seed);
  return *program;
}

}  // namespace tessera
