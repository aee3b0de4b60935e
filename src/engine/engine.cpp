#include "engine/engine.h"

#include <cmath>

#include "base/error.h"
#include "engine/batch_rule.h"
#include "engine/batch_source.h"
#include "engine/evaluator.h"
#include "engine/gradient_accumulation.h"
#include "engine/step_checks.h"
#include "engine/text_generator.h"

namespace tessera {
namespace {

/// The training graph, after the plan and the data were checked against it.
Graph checked_training_graph(const RunConfig& config, const Plan& plan, const RunData& data) {
  Graph graph = training_graph(config);
  check_fits(plan, graph);
  if (data.train) check_fits(graph, config.model, *data.train);
  return graph;
}

RuntimeOptions with_reduction(RuntimeOptions options, Reduction reduction) {
  options.reduction = reduction;
  return options;
}

}  // namespace

struct Engine::State {
  RunConfig config;
  Plan plan;
  std::shared_ptr<const RunData> data;
  Graph graph;                     // of a training step
  Graph home_graph;                // for kEvaluate, of an evaluation
  std::vector<Field> data_fields;  // of a batch, with its rows: what the graph reads of it
  Purpose purpose = Purpose::kTrain;
  Compiled compiled;
  std::array<BegunStep, kMaxStepsInFlight> begun;  // steps under way, by number in turn
  std::unique_ptr<Runtime>
      runtime;  // before it goes no step is under way: what they hold goes after it
  LoadedProgram* training = nullptr;
  LoadedProgram* evaluation = nullptr;
  LoadedProgram* prediction = nullptr;
  LoadedProgram* decoding = nullptr;
  std::unique_ptr<BatchLoader> loader;
  bool has_taken = false;
  Batch taken;                   // the one that was taken last
  Seconds data_wait{0};          // for it
  std::vector<int> token_bytes;  // of each token of the vocabulary, as text
  int64_t steps_done = 0;
  int64_t batches_taken = 0;          // also that of the next batch
  std::optional<int64_t> data_parts;  // of the run that this one goes on with
  TensorMap decoded;                  // the logits of the last place
  RuleLookup rules;
  bool check_placements = true;
  std::unique_ptr<SplitStep> split_step;
  StepInputs accumulation_inputs;
  std::optional<double> own_rate;  // instead of the schedule's
  StepResult pending;        // of the batches that were accumulated since the last update: sums
  int64_t accumulated = 0;   // their number
  bool is_exchanged = true;  // is all of it in the reduced gradients?

  /// The program whose placements of the variables all others keep.
  const Graph& home() const { return purpose == Purpose::kTrain ? graph : home_graph; }

  void compile_training() {
    CompileOptions options = compile_options(plan);
    options.rules = rules;
    options.check_placements = check_placements;
    compiled = compile(graph, plan.placed(), plan.marks, options);
  }

  void compile_evaluation() {
    resolve_marks(graph, plan.placed(), assign_meshes(graph, plan.placed(), plan.marks),
                  plan.marks);  // refuses those that name nothing
    home_graph = evaluation_graph(config, config.train.batch);
    compiled = compile(home_graph, plan.placed(), marks_for(home_graph, plan.marks),
                       {.dump = {}, .rules = rules});
  }

  void load_without_training(const Graph& other, LoadedProgram*& program) {
    const auto marks = with_variables_of(home(), compiled, other, marks_for(other, plan.marks));
    program = &runtime->load(shared_tasks(compile(other, plan.placed(), marks).tasks));
  }

  /// Data-parallel parts of a batch, of this run or of the one that it goes on with.
  int64_t parts() const { return data_parts ? *data_parts : parts_of(compiled, home()); }

  Sampler sampler() const {
    return Sampler({.samples = data->train->samples(),
                    .batch = config.train.batch,
                    .parts = parts(),
                    .shuffle = config.data.shuffle,
                    .tail = config.data.tail,
                    .seed = config.train.seed});
  }

  void start_loader() {
    if (!loader) loader = std::make_unique<BatchLoader>(data->train, sampler(), batches_taken);
  }

  LoadedProgram& evaluation_program() {
    if (!evaluation)
      load_without_training(evaluation_graph(config, config.train.batch), evaluation);
    return *evaluation;
  }
  LoadedProgram& prediction_program() {
    if (!prediction) load_without_training(prediction_graph(config), prediction);
    return *prediction;
  }
  LoadedProgram& decoding_program() {
    if (decoding) return *decoding;
    load_without_training(decoding_graph(config), decoding);
    runtime->initialize(*decoding, config.train.seed);  // of the caches: the others are set
    return *decoding;
  }

  /// The logits after `token`, which stands at `place`; the places before it have been decoded.
  std::span<const float> decode(int32_t token, int64_t place) {
    const Tensor tokens = Tensor::of<int32_t>({1, 1}, {token}),
                 where = Tensor::scalar(static_cast<int32_t>(place));
    runtime->run(decoding_program(), {{"tokens", &tokens}, {"place", &where}}, decoded);
    return decoded.at("logits").values<float>();
  }

  /// Text bytes of the tokens that labels count, of which the model predicts the last `places` of
  /// each row; 0 when they are of no text.
  int64_t counted_bytes(const Batch& rows, int64_t places) {
    if (config.data.kind != "text" || config.data.mask_block > 0) return 0;
    if (token_bytes.empty())
      for (int32_t token = 0; token < data->vocabulary.size(); ++token)
        token_bytes.push_back(static_cast<int>(data->vocabulary.decode({token}).size()));
    const auto labels = rows.at(kLabels).values<int32_t>();
    const int64_t context = config.model.context;
    int64_t bytes = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(labels.size()); ++i) {
      const int32_t label = labels[i];
      if (label >= 0 && i % context >= context - places) bytes += token_bytes.at(label);
    }
    return bytes;
  }

  int64_t under_way() const { return runtime->steps_in_flight(); }
  int64_t next_step() const { return steps_done + under_way(); }
  BegunStep& begun_step(int64_t number) { return begun[number % kMaxStepsInFlight]; }

  void begin_step(const Batch& batch, const Observer* observer) {
    check_rows(data_fields, batch);
    BegunStep& next = begun_step(next_step());
    next.inputs.give(compiled.tasks.inputs, batch, next_rate(), static_cast<int32_t>(next_step()));
    next.tokens = batch.at(kLabels).size();
    runtime->begin_step(*training, next.inputs.by_name(), next.results, observer);
  }

  StepResult end_step() {
    const Seconds time = runtime->end_step();
    BegunStep& ended = begun_step(steps_done);
    const StepResult result{.step = steps_done++,
                            .loss = ended.result("loss"),
                            .learning_rate = ended.inputs.rate(),
                            .grad_norm = ended.result("grad_norm"),
                            .tokens = ended.tokens,
                            .time = time,
                            .data_wait = ended.data_wait};
    if (ended.batch) loader->recycle(std::move(*ended.batch));
    ended.batch.reset();
    check_is_a_number(result.loss, result.step);
    return result;
  }

  /// The next one of the loader; the caller hands it back.
  Batch take_batch() {
    start_loader();
    if (has_taken) loader->recycle(std::move(taken));
    has_taken = false;
    Batch batch = loader->next();
    ++batches_taken;
    return batch;
  }

  double next_rate() const {
    return own_rate.value_or(learning_rate(config.optimizer.schedule, next_step()));
  }

  void check_trains() const {
    ensure(programs.options().main == Purpose::kTrain,
           "an engine that was made to evaluate does not train");
  }
  /// `what` was called, and belongs between steps.
  void check_between_steps(const char* what) const {
    check_none_in_flight(steps.in_flight(), what);
  }
};

Engine::Engine(RunConfig config, Plan plan, std::shared_ptr<const RunData> data,
               EngineOptions options)
    : state_(std::make_unique<State>(std::move(config), std::move(plan), std::move(data),
                                     std::move(options))) {}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

const RunConfig& Engine::config() const {
  return state_->config;
}
const Plan& Engine::plan() const {
  return state_->plan;
}
Purpose Engine::purpose() const {
  return state_->programs.options().main;
}
const RunData& Engine::data() const {
  return *state_->data;
}
const Graph& Engine::graph() const {
  return state_->programs.training_graph();
}
const Compiled& Engine::compiled() const {
  return state_->programs.main();
}
Runtime& Engine::runtime() {
  return state_->programs.runtime();
}
const Runtime& Engine::runtime() const {
  return state_->programs.runtime();
}
int64_t Engine::step_count() const {
  return state_->steps.done();
}

// ---- data ----

Sampler Engine::sampler() const {
  return state_->batches.sampler();
}

int64_t Engine::steps_per_epoch() const {
  return sampler().steps_per_epoch();
}

DataPosition Engine::position() const {
  const State& s = *state_;
  return {s.steps.done(), s.batches.taken() - s.steps.in_flight(), s.batches.parts()};
}

void Engine::set_position(const DataPosition& position) {
  State& s = *state_;
  s.check_between_steps("set_position()");
  s.batches.set_position(position.batch, position.parts);
  s.steps.set_done(position.step);
  s.gradients.drop();
}

const Batch& Engine::next_batch() {
  State& s = *state_;
  const auto start = std::chrono::steady_clock::now();
  s.taken = s.take_batch();
  s.has_taken = true;
  s.data_wait = seconds_since(start);
  return s.taken;
}

StepResult Engine::step(const Observer* observer) {
  check_rests(state_->under_way(), "step()");
  const Batch& batch = next_batch();
  StepResult result = step(batch, observer);
  result.data_wait = state_->data_wait;
  return result;
}

StepResult Engine::step(const Batch& batch, const Observer* observer) {
  State& s = *state_;
  s.check_trains();
  check_rests(s.under_way(), "step()");
  s.begin_step(batch, observer);
  return s.end_step();
}

void Engine::begin_step() {
  State& s = *state_;
  s.check_trains();
  ensure(s.under_way() < kMaxStepsInFlight,
         "a step is begun when there is room for one more under way");
  const auto start = std::chrono::steady_clock::now();
  BegunStep& next = s.begun_step(s.next_step());
  const Batch& batch = next.batch.emplace(s.take_batch());
  next.data_wait = seconds_since(start);
  s.begin_step(batch, nullptr);
}

StepResult Engine::end_step() {
  return state_->end_step();
}

int Engine::steps_under_way() const {
  return state_->runtime->steps_in_flight();
}

StepResult Engine::run(const Batch& batch) {
  return step(batch);
}

double Engine::accumulate(const Batch& batch) {
  State& s = *state_;
  const auto start = std::chrono::steady_clock::now();
  s.check_trains();
  check_rests(s.under_way(), "accumulate()");
  if (!s.split_step)
    s.split_step =
        std::make_unique<SplitStep>(s.config, s.plan, s.graph, s.compiled, s.rules, *s.runtime);
  check_rows(s.data_fields, batch);
  s.accumulation_inputs.give(s.compiled.tasks.inputs, batch, s.next_rate(),
                             draw_of(s.steps_done, s.accumulated));
  const double loss = s.split_step->accumulate(s.accumulation_inputs.by_name());
  check_is_a_number(loss, s.steps_done);
  if (s.accumulated == 0) s.pending = {};
  s.pending.loss += loss;
  s.pending.tokens += batch.at(kLabels).size();
  if (&batch == &s.taken) s.pending.data_wait += s.data_wait;
  s.pending.time += seconds_since(start);
  ++s.accumulated;
  s.is_exchanged = false;
  return loss;
}

int64_t Engine::accumulated() const {
  return state_->accumulated;
}

void Engine::all_reduce_gradients() {
  State& s = *state_;
  s.check_is_accumulated("all_reduce_gradients()");
  if (s.is_exchanged) return;
  const auto start = std::chrono::steady_clock::now();
  s.split_step->all_reduce();
  s.is_exchanged = true;
  s.pending.time += seconds_since(start);
}

StepResult Engine::apply_gradients() {
  State& s = *state_;
  s.check_is_accumulated("apply_gradients()");
  all_reduce_gradients();
  const auto start = std::chrono::steady_clock::now();
  StepResult result = s.pending;
  const double share = 1.0 / static_cast<double>(s.accumulated);
  result.step = s.steps_done;
  result.loss *= share;
  result.learning_rate = static_cast<float>(s.next_rate());  // as the ranks get it
  result.grad_norm = s.split_step->apply(share, result.learning_rate, s.steps_done).grad_norm;
  result.time += seconds_since(start);
  s.accumulated = 0;
  ++s.steps_done;
  return result;
}

void Engine::set_learning_rate(std::optional<double> rate) {
  if (rate && !(std::isfinite(*rate) && *rate >= 0))
    throw UserError("the learning rate " + std::to_string(*rate) + " is no rate",
                    "it is a number of at least 0",
                    "give one, or nothing to go back to the schedule", ExitCode::kUsage);
  state_->own_rate = rate;
}

void Engine::prepare() {
  State& s = *state_;
  if (s.purpose == Purpose::kTrain) s.start_loader();
  s.evaluation_program();
  if (objective_of(s.config.model) == Objective::kNextToken) s.prediction_program();
}

BatchRange Engine::dataloader(int64_t batches) {
  return BatchRange(*this, batches);
}

// ---- whole steps ----

StepResult Engine::step(const Observer* observer) {
  State& s = *state_;
  s.check_between_steps("step()");
  const Batch& batch = s.batches.next();
  StepResult result = step(batch, observer);
  result.data_wait = s.batches.wait_of(batch);
  return result;
}

StepResult Engine::step(const Batch& batch, const Observer* observer) {
  State& s = *state_;
  s.check_trains();
  s.check_between_steps("step()");
  s.steps.begin(batch, observer);
  return s.steps.end(s.batches);
}

StepResult Engine::run(const Batch& batch) {
  return step(batch);
}

void Engine::begin_step() {
  State& s = *state_;
  s.check_trains();
  ensure(s.steps.in_flight() < kStepsUnderWay, "fewer steps are in flight than there may be");
  s.steps.begin(s.batches.take());
}

StepResult Engine::end_step() {
  return state_->steps.end(state_->batches);
}

int Engine::steps_in_flight() const {
  return state_->steps.in_flight();
}

void Engine::set_learning_rate(std::optional<double> rate) {
  if (rate && !(std::isfinite(*rate) && *rate >= 0))
    throw UserError("the learning rate " + std::to_string(*rate) + " is not possible",
                    "it must be a number of at least 0",
                    "give one, or nothing to go back to the schedule", ExitCode::kUsage);
  state_->steps.set_rate(rate);
}

// ---- steps in parts ----

double Engine::accumulate(const Batch& batch) {
  State& s = *state_;
  s.check_trains();
  s.check_between_steps("accumulate()");
  return s.gradients.accumulate(batch, s.steps.done(), s.steps.rate(), s.batches.wait_of(batch));
}

int64_t Engine::accumulated() const {
  return state_->gradients.count();
}

void Engine::all_reduce_gradients() {
  state_->gradients.reduce();
}

StepResult Engine::apply_gradients() {
  State& s = *state_;
  const StepResult result = s.gradients.apply(s.steps.done(), s.steps.rate());
  s.steps.set_done(result.step + 1);
  return result;
}

// ---- between steps ----

void Engine::prepare() {
  State& s = *state_;
  if (purpose() == Purpose::kTrain) s.batches.start();
  s.programs.get(Purpose::kEvaluate);
  if (objective_of(s.config.model) == Objective::kNextToken) s.programs.get(Purpose::kPredict);
}

Engine::Evaluation Engine::evaluate(int64_t batches) {
  state_->check_between_steps("evaluate()");
  return state_->evaluator.evaluate(batches);
}

std::vector<float> Engine::predict(const std::vector<int32_t>& tokens) {
  state_->check_between_steps("predict()");
  return state_->generator.predict(tokens);
}

std::vector<int32_t> Engine::generate(std::vector<int32_t> prompt, int64_t count,
                                      const SamplingOptions& options) {
  state_->check_between_steps("generate()");
  return state_->generator.generate(std::move(prompt), count, options);
}

TensorMap Engine::variables() {
  state_->check_between_steps("variables()");
  TensorMap values;
  for (const Variable& variable : graph().variables()) {
    const std::string& name = graph().value(variable.value).name;
    values.emplace(name, runtime().variable(name));
  }
  return values;
}

void Engine::set_variables(const TensorMap& values) {
  state_->check_between_steps("set_variables()");
  for (const auto& [name, value] : values) runtime().set_variable(name, value);
}

}  // namespace tessera
