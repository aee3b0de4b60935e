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
  const Plan plan;
  const RunConfig config;
  const std::shared_ptr<const RunData> data;
  TrainingSteps steps;
  ProgramSet programs;  // made after `steps` and destroyed before: the runtime uses their memory
  BatchSource batches;
  GradientAccumulation gradients;
  Evaluator evaluator;
  TextGenerator generator;

  State(RunConfig given, Plan given_plan, std::shared_ptr<const RunData> run_data,
        EngineOptions options)
      : plan(std::move(given_plan)),
        config(resolved_for(std::move(given), plan)),
        data(std::move(run_data)),
        steps(config.optimizer.schedule, programs),
        programs(config, plan, checked_training_graph(config, plan, *data),
                 {.main = options.purpose,
                  .rules = std::move(options.rules),
                  .check_placements = options.check_placements,
                  .disabled_passes = std::move(options.disabled_passes),
                  .verify_passes = options.verify_passes},
                 with_reduction(std::move(options.runtime), config.train.reduction)),
        batches(config, data, data_parallel_parts(programs.main().sharded, programs.main().graph)),
        gradients(programs),
        evaluator(programs, data),
        generator(programs) {
    if (options.initialize) programs.initialize();
  }

  void check_trains() const {
    ensure(programs.options().main == Purpose::kTrain,
           "an engine that was made to evaluate does not train");
  }
  /// Checks a call of `what`, which belongs between steps.
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
  return state_->batches.next();
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
  ensure(s.steps.in_flight() < kMaxStepsInFlight, "fewer steps are in flight than there may be");
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
