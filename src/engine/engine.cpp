#include "engine/engine.h"

#include <chrono>
#include <cmath>

#include "autodiff/optimizer.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/loader.h"
#include "ops/builder.h"
#include "shard/mesh_assignment.h"

namespace tessera {
namespace {

std::shared_ptr<const TaskGraph> shared_tasks(const TaskGraph& tasks) {
  return std::make_shared<const TaskGraph>(tasks);
}

/// The marks that name something in `graph`: evaluation and prediction lack what only training has (labels, optimizer state).
std::vector<Mark> marks_for(const Graph& graph, const std::vector<Mark>& marks) {
  std::vector<Mark> present;
  for (const Mark& mark : marks) {
    bool found = false;
    if (mark.kind == Mark::Kind::kTensor)
      for (const Value& value : graph.values()) found = found || matches(mark.pattern, value.name);
    else
      for (const Op& op : graph.ops()) found = found || matches(mark.pattern, op.name);
    if (found) present.push_back(mark);
  }
  return present;
}

/// Placements that training gave to the variables, as marks: every program keeps a variable where it lies.
std::vector<Mark> with_variables_of(const Graph& training, const Compiled& compiled, const Graph& graph, std::vector<Mark> marks) {
  std::erase_if(marks, [&](const Mark& mark) {
    const auto value = mark.kind == Mark::Kind::kTensor ? graph.find_value(mark.pattern) : std::nullopt;
    return value && graph.variable_of(*value);
  });
  std::vector<Mark> kept;
  for (Mark& mark : marks) {
    bool names_variable = false;
    for (const Variable& variable : graph.variables())
      names_variable = names_variable || (mark.kind == Mark::Kind::kTensor && matches(mark.pattern, graph.value(variable.value).name));
    if (!names_variable) kept.push_back(std::move(mark));
  }
  for (const Variable& variable : graph.variables()) {
    const std::string& name = graph.value(variable.value).name;
    const DistAttr& attr = compiled.sharded.of(*training.find_value(name));
    std::vector<std::string> spec;
    for (const DimSharding& dim : attr.dims) {
      std::vector<std::string> axes;
      for (int axis : dim.axes) axes.push_back("\"" + attr.mesh->axes()[static_cast<size_t>(axis)] + "\"");
      spec.push_back(axes.empty() ? "None" : axes.size() == 1 ? axes.front() : "(" + join(axes, ",") + ")");
    }
    kept.push_back(shard_tensor(name, "P(" + join(spec, ", ") + ")", "the training program"));
    kept.back().mesh =
        compiled.sharded.meshes[static_cast<size_t>(compiled.sharded.stages.values[static_cast<size_t>(training.find_value(name)->index)])]
            .name;
  }
  return kept;
}

/// Data-parallel parts of a batch: how often its rows are divided.
int64_t parts_of(const Compiled& compiled, const Graph& graph) {
  const auto tokens = graph.find_value("tokens");
  if (!tokens) return 1;
  const DistAttr& attr = compiled.sharded.of(*tokens);
  int64_t parts = 1;
  for (int axis : attr.dims.front().axes)
    if (attr.mesh->axes()[static_cast<size_t>(axis)] != kMicroBatchAxis) parts *= attr.mesh->shape()[axis];
  return parts;
}

}  // namespace

TextData load_text(const DataConfig& config, int64_t context, const std::optional<Vocabulary>& vocabulary) {
  const std::string text = read_text({config.path.begin(), config.path.end()}, config.max_bytes);
  TextData data;
  if (vocabulary)
    data.vocabulary = *vocabulary;
  else if (config.tokens == "characters")
    data.vocabulary = Vocabulary::characters_of(text);
  TextSplit split = hold_out(data.vocabulary.encode(text), config.held_out, context + 1);
  data.bigram_entropy = bigram_entropy(split.held_out, data.vocabulary.size());
  data.train_tokens = static_cast<int64_t>(split.train.size());
  data.held_out_tokens = static_cast<int64_t>(split.held_out.size());
  const int64_t stride = config.stride > 0 ? config.stride : context;
  data.train = std::make_shared<const TextDataset>(std::move(split.train), context, stride);
  data.held_out = std::make_shared<const TextDataset>(std::move(split.held_out), context, context);
  return data;
}

Graph training_graph(const RunConfig& config) {
  Graph graph = build_model(config.model, {.batch = config.train.batch, .training = true, .loss = true, .seed = config.train.seed});
  Builder builder(graph, config.train.seed);
  add_training(builder, graph.output("loss"), config.optimizer);
  return graph;
}

Graph evaluation_graph(const RunConfig& config, int64_t batch) {
  return build_model(config.model, {.batch = batch, .training = false, .loss = true, .seed = config.train.seed});
}

Graph prediction_graph(const RunConfig& config) {
  return build_model(config.model, {.batch = 1, .training = false, .loss = false, .seed = config.train.seed});
}

struct Engine::State {
  RunConfig config;
  Plan plan;
  std::shared_ptr<const TextData> data;
  Graph graph;       // of a training step
  Graph home_graph;  // for kEvaluate, of an evaluation
  Purpose purpose = Purpose::kTrain;
  Compiled compiled;
  std::unique_ptr<Runtime> runtime;
  LoadedProgram* training = nullptr;
  LoadedProgram* evaluation = nullptr;
  LoadedProgram* prediction = nullptr;
  std::unique_ptr<BatchLoader> loader;
  int64_t steps_done = 0;
  std::optional<int64_t> data_parts;  // of the run that this one goes on with
  Tensor rate = Tensor::scalar(0.0f);
  Tensor step_number = Tensor::scalar(int32_t{0});
  std::map<std::string, const Tensor*> inputs;
  TensorMap results;

  /// The program whose placements of the variables all others keep.
  const Graph& home() const { return purpose == Purpose::kTrain ? graph : home_graph; }

  void compile_training(const RuleLookup& rules) {
    compiled = compile(graph, plan.placed(), plan.marks,
                       {.dump = {}, .rules = rules, .micro_batches = plan.micro_batches, .schedule = plan.schedule});
  }

  void compile_evaluation(const RuleLookup& rules) {
    resolve_marks(graph, plan.placed(), assign_meshes(graph, plan.placed(), plan.marks), plan.marks);  // refuses those that name nothing
    home_graph = evaluation_graph(config, config.train.batch);
    compiled = compile(home_graph, plan.placed(), marks_for(home_graph, plan.marks), {.dump = {}, .rules = rules});
  }

  template <typename MakeGraph>
  LoadedProgram& load_without_training(LoadedProgram*& program, MakeGraph make_graph) {
    if (!program) {
      const Graph other = make_graph();
      const auto marks = with_variables_of(home(), compiled, other, marks_for(other, plan.marks));
      program = &runtime->load(shared_tasks(compile(other, plan.placed(), marks).tasks));
    }
    return *program;
  }

  void give(const TextBatch& batch) {
    rate.values<float>()[0] = static_cast<float>(learning_rate(config.optimizer.schedule, steps_done));
    step_number.values<int32_t>()[0] = static_cast<int32_t>(steps_done);
    for (const TaskInput& input : compiled.tasks.inputs) {
      const Tensor*& place = inputs[input.name];
      if (input.name == "tokens")
        place = &batch.inputs;
      else if (input.name == "labels")
        place = &batch.labels;
      else if (input.name == kLearningRateInput)
        place = &rate;
      else if (input.name == kStepInput)
        place = &step_number;
      else
        throw InternalError("the training graph has an unknown input '" + input.name + "'");
    }
  }

  double result(std::string_view name) const {
    const auto found = results.find(std::string(name));
    return found == results.end() ? 0.0 : found->second.values<float>()[0];
  }
};

Engine::Engine(RunConfig config, Plan plan, std::shared_ptr<const TextData> data, EngineOptions options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.config = std::move(config);
  s.plan = std::move(plan);
  s.data = std::move(data);
  s.graph = training_graph(s.config);
  s.purpose = options.purpose;
  check_fits(s.plan, s.graph);
  s.runtime = std::make_unique<Runtime>(s.plan.processes(), options.runtime);
  if (s.purpose == Purpose::kTrain)
    s.compile_training(options.rules);
  else
    s.compile_evaluation(options.rules);
  LoadedProgram*& home = s.purpose == Purpose::kTrain ? s.training : s.evaluation;
  home = &s.runtime->load(shared_tasks(s.compiled.tasks));
  if (options.draw) s.runtime->initialize(*home, s.config.train.seed);
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

const RunConfig& Engine::config() const {
  return state_->config;
}
const Plan& Engine::plan() const {
  return state_->plan;
}
Purpose Engine::purpose() const {
  return state_->purpose;
}
const TextData& Engine::data() const {
  return *state_->data;
}
const Graph& Engine::graph() const {
  return state_->graph;
}
const Compiled& Engine::compiled() const {
  return state_->compiled;
}
Runtime& Engine::runtime() {
  return *state_->runtime;
}
int64_t Engine::step_count() const {
  return state_->steps_done;
}

Sampler Engine::sampler() const {
  const State& s = *state_;
  return Sampler({.samples = s.data->train->samples(),
                  .batch = s.config.train.batch,
                  .parts = position().parts,
                  .shuffle = s.config.data.shuffle,
                  .tail = s.config.data.tail,
                  .seed = s.config.train.seed});
}

DataPosition Engine::position() const {
  const State& s = *state_;
  return {s.steps_done, s.data_parts ? *s.data_parts : parts_of(s.compiled, s.home())};
}

void Engine::set_position(const DataPosition& position) {
  state_->loader.reset();
  state_->steps_done = position.step;
  state_->data_parts = position.parts;
}

StepResult Engine::step(const Observer* observer) {
  State& s = *state_;
  if (!s.loader) s.loader = std::make_unique<BatchLoader>(s.data->train, sampler(), s.steps_done);
  TextBatch batch = s.loader->next();
  const StepResult result = step(batch, observer);
  s.loader->recycle(std::move(batch));
  return result;
}

StepResult Engine::step(const TextBatch& batch, const Observer* observer) {
  State& s = *state_;
  ensure(s.purpose == Purpose::kTrain, "an engine that was made to evaluate does not train");
  const auto start = std::chrono::steady_clock::now();
  s.give(batch);
  s.runtime->run(*s.training, s.inputs, s.results, observer);
  const StepResult result{.step = s.steps_done,
                          .loss = s.result("loss"),
                          .learning_rate = s.rate.values<float>()[0],
                          .grad_norm = s.result("grad_norm"),
                          .tokens = batch.inputs.size(),
                          .time = Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count())};
  if (!std::isfinite(result.loss))
    throw UserError("the loss of step " + std::to_string(s.steps_done) + " is not a number",
                    "training diverged: values grew until they left the range of f32",
                    "lower optimizer.learning_rate, lengthen optimizer.warmup, or set optimizer.clip_norm", ExitCode::kDiverged);
  ++s.steps_done;
  return result;
}

std::vector<StepResult> Engine::fit(int64_t steps, const std::function<bool(const StepResult&)>& on_step) {
  std::vector<StepResult> results;
  results.reserve(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    results.push_back(step());
    if (on_step && !on_step(results.back())) break;
  }
  return results;
}

Engine::Evaluation Engine::evaluate(int64_t batches) {
  State& s = *state_;
  const int64_t batch = s.config.train.batch;
  LoadedProgram& program = s.load_without_training(s.evaluation, [&] { return evaluation_graph(s.config, batch); });
  const Sampler sampler(
      {.samples = s.data->held_out->samples(), .batch = batch, .parts = 1, .shuffle = Shuffle::kNone, .tail = Tail::kPad, .seed = 0});
  Evaluation evaluation;
  double sum = 0;
  TensorMap results;
  TextBatch rows;
  for (int64_t i = 0; i < std::min(batches, sampler.steps_per_epoch()); ++i) {
    s.data->held_out->fill(sampler, i, {0, batch}, rows);
    for (int64_t row = 0; row < batch; ++row)
      if (sampler.padded(i, row))
        for (int32_t& label : rows.labels.values<int32_t>().subspan(static_cast<size_t>(row * s.data->held_out->context()),
                                                                    static_cast<size_t>(s.data->held_out->context())))
          label = -1;
    s.runtime->run(program, {{"tokens", &rows.inputs}, {"labels", &rows.labels}}, results);
    const double count = results.at("count").values<float>()[0];
    sum += results.at("loss").values<float>()[0] * count;
    evaluation.tokens += static_cast<int64_t>(count);
  }
  evaluation.loss = sum / static_cast<double>(std::max<int64_t>(evaluation.tokens, 1));
  return evaluation;
}

std::vector<float> Engine::predict(const std::vector<int32_t>& tokens) {
  State& s = *state_;
  LoadedProgram& program = s.load_without_training(s.prediction, [&] { return prediction_graph(s.config); });
  const int64_t context = s.config.model.context;
  const auto used = std::min<int64_t>(context, static_cast<int64_t>(tokens.size()));
  const NextToken next = next_token(s.config.model, used);
  Tensor input(TensorType{DType::kI32, {1, context}});
  std::copy(tokens.end() - used, tokens.end(), input.values<int32_t>().begin() + next.first);
  TensorMap results;
  s.runtime->run(program, {{"tokens", &input}}, results);
  const auto logits = results.at("logits").values<float>();
  const int64_t width = s.config.model.vocabulary;
  return {logits.begin() + next.row * width, logits.begin() + (next.row + 1) * width};
}

std::vector<int32_t> Engine::generate(std::vector<int32_t> prompt, int64_t count, const SamplingOptions& options) {
  const size_t start = prompt.size();
  for (int64_t i = 0; i < count; ++i) prompt.push_back(draw_token(predict(prompt), options, static_cast<uint64_t>(i)));
  return {prompt.begin() + static_cast<std::ptrdiff_t>(start), prompt.end()};
}

TensorMap Engine::variables() {
  TensorMap values;
  for (const std::string& name : state_->runtime->variable_names()) values.emplace(name, state_->runtime->variable(name));
  return values;
}

void Engine::set_variables(const TensorMap& values) {
  for (const auto& [name, value] : values) state_->runtime->set_variable(name, value);
}

}  // namespace tessera
