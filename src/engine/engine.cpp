#include "engine/engine.h"

#include <array>
#include <chrono>
#include <cmath>
#include <optional>

#include "autodiff/optimizer.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/batch_rule.h"
#include "engine/begun_step.h"
#include "engine/loader.h"
#include "engine/shared_variables.h"
#include "engine/split_step.h"
#include "engine/step_checks.h"
#include "ops/builder.h"
#include "shard/mesh_assignment.h"

namespace tessera {
namespace {

std::shared_ptr<const TaskGraph> shared_tasks(const TaskGraph& tasks) {
  return std::make_shared<const TaskGraph>(tasks);
}

Seconds seconds_since(std::chrono::steady_clock::time_point start) {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

/// Data-parallel parts of a batch: how often its rows are divided.
int64_t parts_of(const Compiled& compiled, const Graph& graph) {
  const DistAttr& attr = compiled.sharded.of(samples_input(graph));
  int64_t parts = 1;
  for (int axis : attr.dims.front().axes)
    if (attr.mesh->axes()[axis] != kMicroBatchAxis) parts *= attr.mesh->shape()[axis];
  return parts;
}

/// The number under which dropout draws for the batch `index` of those that a step accumulates:
/// that of the step for the first, another for each of the others (of 256 batches in 2^24 steps).
int32_t draw_of(int64_t step, int64_t index) {
  return static_cast<int32_t>(static_cast<uint32_t>(step) + (static_cast<uint32_t>(index) << 24));
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
  std::array<BegunStep, kStepsUnderWay> begun;  // steps under way, by number in turn
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

  int64_t under_way() const { return runtime->steps_under_way(); }
  int64_t next_step() const { return steps_done + under_way(); }
  BegunStep& begun_step(int64_t number) { return begun[number % kStepsUnderWay]; }

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
    ensure(purpose == Purpose::kTrain, "an engine that was made to evaluate does not train");
  }

  void check_is_accumulated(const std::string& what) const {
    if (accumulated > 0) return;
    throw UserError(what + " has no gradients", "nothing was accumulated since the last step",
                    "call accumulate() with a batch first, or step() for a whole step",
                    ExitCode::kUsage);
  }
};

Engine::Engine(RunConfig config, Plan plan, std::shared_ptr<const RunData> data,
               EngineOptions options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.config = resolved_for(std::move(config), plan);
  s.plan = std::move(plan);
  s.data = std::move(data);
  s.rules = options.rules;
  s.check_placements = options.check_placements;
  s.graph = training_graph(s.config);
  for (const std::string& name : data_inputs(s.graph))
    s.data_fields.push_back({name, s.graph.type(*s.graph.find_value(name))});
  s.purpose = options.purpose;
  check_fits(s.plan, s.graph);
  if (s.data->train) check_fits(s.graph, s.config.model, *s.data->train);
  options.runtime.reduction = s.config.train.reduction;
  s.runtime = std::make_unique<Runtime>(s.plan.ranks(), options.runtime);
  if (s.purpose == Purpose::kTrain)
    s.compile_training();
  else
    s.compile_evaluation();
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
const RunData& Engine::data() const {
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
const Runtime& Engine::runtime() const {
  return *state_->runtime;
}
int64_t Engine::step_count() const {
  return state_->steps_done;
}

Sampler Engine::sampler() const {
  return state_->sampler();
}

int64_t Engine::steps_per_epoch() const {
  return sampler().steps_per_epoch();
}

DataPosition Engine::position() const {
  const State& s = *state_;
  return {s.steps_done, s.batches_taken - s.under_way(), s.parts()};
}

void Engine::set_position(const DataPosition& position) {
  State& s = *state_;
  check_rests(s.under_way(), "set_position()");
  s.loader.reset();
  s.has_taken = false;
  s.steps_done = position.step;
  s.batches_taken = position.batch;
  s.data_parts = position.parts;
  if (s.accumulated > 0) s.split_step->drop();
  s.accumulated = 0;
  s.is_exchanged = true;
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
  ensure(s.under_way() < kStepsUnderWay,
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
  return state_->runtime->steps_under_way();
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

Engine::Evaluation Engine::evaluate(int64_t batches) {
  State& s = *state_;
  check_rests(s.under_way(), "evaluate()");
  const int64_t batch = s.config.train.batch;
  LoadedProgram& program = s.evaluation_program();
  const Sampler sampler({.samples = s.data->held_out->samples(),
                         .batch = batch,
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kPad,
                         .seed = 0});
  Evaluation evaluation;
  double sum = 0, correct = 0;
  Overlap overlap;
  const int64_t places = predicted_places(s.graph);
  TensorMap results;
  std::map<std::string, const Tensor*> inputs;
  Batch rows;
  for (int64_t i = 0; i < std::min(batches, sampler.steps_per_epoch()); ++i) {
    s.data->held_out->fill(sampler, i, {0, batch}, rows);
    for (int64_t row = 0; row < batch; ++row)
      if (sampler.padded(i, row)) std::ranges::fill(rows.row<int32_t>(kLabels, row), -1);
    for (const Field& field : s.data_fields) inputs[field.name] = &rows.at(field.name);
    s.runtime->run(program, inputs, results);
    const double count = results.at("count").values<float>()[0];
    sum += results.at("loss").values<float>()[0] * count;
    correct += results.at("correct").values<float>()[0];
    evaluation.tokens += static_cast<int64_t>(count);
    evaluation.bytes += s.counted_bytes(rows, places);
    if (results.contains("unions"))
      overlap.add(results.at("intersections").values<float>(),
                  results.at("unions").values<float>());
  }
  const auto tokens = static_cast<double>(std::max<int64_t>(evaluation.tokens, 1));
  evaluation.loss = sum / tokens;
  evaluation.accuracy = correct / tokens;
  evaluation.intersection_over_union = overlap.mean();
  return evaluation;
}

std::vector<float> Engine::predict(const std::vector<int32_t>& tokens) {
  State& s = *state_;
  check_rests(s.under_way(), "predict()");
  check_predicts(s.config.model);
  LoadedProgram& program = s.prediction_program();
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

std::vector<int32_t> Engine::generate(std::vector<int32_t> prompt, int64_t count,
                                      const SamplingOptions& options) {
  State& s = *state_;
  check_rests(s.under_way(), "generate()");
  const auto start = static_cast<int64_t>(prompt.size());
  int64_t decoded = 0;  // tokens of the text so far
  const auto next_logits = [&]() -> std::vector<float> {
    const auto used = static_cast<int64_t>(prompt.size());
    if (used == 0 || used > s.config.model.context || !options.cache || !can_decode(s.config.model))
      return predict(prompt);
    std::span<const float> logits;
    for (; decoded < used; ++decoded) logits = s.decode(prompt[decoded], decoded);
    return {logits.begin(), logits.end()};
  };
  for (int64_t i = 0; i < count; ++i)
    prompt.push_back(draw_token(next_logits(), options, static_cast<uint64_t>(i)));
  return {prompt.begin() + start, prompt.end()};
}

TensorMap Engine::variables() {
  check_rests(state_->under_way(), "variables()");
  TensorMap values;
  for (const Variable& variable : state_->graph.variables()) {
    const std::string& name = state_->graph.value(variable.value).name;
    values.emplace(name, state_->runtime->variable(name));
  }
  return values;
}

void Engine::set_variables(const TensorMap& values) {
  check_rests(state_->under_way(), "set_variables()");
  for (const auto& [name, value] : values) state_->runtime->set_variable(name, value);
}

}  // namespace tessera
