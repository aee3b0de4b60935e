#include "training/engine/engine.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compiler/plan/check_plan.h"
#include "ir/models/family.h"
#include "training/engine/data/batch_rule.h"
#include "training/engine/internal/steps/step_checks.h"

namespace tessera {

struct Engine::State {
  const Network network;
  const TrainingSettings settings;
  const std::shared_ptr<const RunData> data;
  const EngineOptions options;
  RunState run;
  std::unique_ptr<Execution> execution;

  State(Network given, TrainingSettings unresolved, Plan plan,
        std::shared_ptr<const RunData> run_data, EngineOptions given_options)
      : network(checked(std::move(given))),
        settings(resolved_for(checked(std::move(unresolved), plan), network, plan)),
        data(checked(std::move(run_data), given_options.purpose)),
        options(std::move(given_options)),
        run(settings, data),
        execution(executed(std::move(plan))) {
    const Compiled& main = execution->programs.main();
    run.batches().set_position(0, data_parallel_parts(main.sharded, main.graph),
                               data_parallel_weights(main.sharded, main.graph));
    set_rows();
    if (options.initialize) execution->programs.initialize();
  }

  /// The loader makes the rows that the ranks of this process read under the plan.
  void set_rows() {
    if (options.purpose == Purpose::kTrain)
      run.batches().set_rows(execution->programs.rows_read_here(Purpose::kTrain));
  }

  static Network checked(Network network) {
    check(network);
    return network;
  }

  static std::shared_ptr<const RunData> checked(std::shared_ptr<const RunData> data,
                                                Purpose purpose) {
    if (!data || (purpose == Purpose::kTrain && !data->train))
      refuse_data("an engine was made without training data",
                  data ? "RunData::train is null" : "its RunData is null",
                  "set RunData::train, for instance by data_of()");
    return data;
  }

  static TrainingSettings checked(TrainingSettings settings, const Plan& plan) {
    check(settings);
    check(plan);
    return settings;
  }

  std::unique_ptr<Execution> executed(Plan plan) {
    check(plan);
    return std::make_unique<Execution>(network, settings, data, std::move(plan), options, run);
  }

  void check_trains() const {
    if (options.purpose == Purpose::kTrain) return;
    throw UserError("an engine that was made to evaluate does not train",
                    "EngineOptions::purpose is kEvaluate, so it has no training step",
                    "make the engine without a purpose", ExitCode::kUsage);
  }
  /// Checks a call of `what`, which begins a whole step.
  void check_begins(const char* what) const {
    check_trains();
    check_none_accumulated(execution->gradients.count(), what);
  }
  /// Checks a call of `what`, which belongs between steps.
  void check_between_steps(const char* what) const {
    check_none_in_flight(execution->steps.in_flight(), what);
  }
};

Engine::Engine(Network network, TrainingSettings settings, Plan plan,
               std::shared_ptr<const RunData> data, EngineOptions options)
    : state_(std::make_unique<State>(std::move(network), std::move(settings), std::move(plan),
                                     std::move(data), std::move(options))) {}

Engine::Engine(Network network, TrainingSettings settings, const PlanMaker& plan,
               std::shared_ptr<const RunData> data, EngineOptions options)
    : Engine(network, settings, plan(network, settings), std::move(data), std::move(options)) {}

Engine::Engine(const RunConfig& config, Plan plan, std::shared_ptr<const RunData> data,
               EngineOptions options)
    : Engine(network_of(config.model), training_settings(config), std::move(plan), std::move(data),
             std::move(options)) {}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

const Network& Engine::network() const {
  return state_->network;
}
const TrainingSettings& Engine::config() const {
  return state_->settings;
}
const Plan& Engine::plan() const {
  return state_->execution->plan;
}
Purpose Engine::purpose() const {
  return state_->options.purpose;
}
const Graph& Engine::graph() const {
  return state_->execution->programs.training_graph();
}
const Compiled& Engine::compiled() const {
  return state_->execution->programs.main();
}
Runtime& Engine::runtime() {
  return state_->execution->programs.runtime();
}
const Runtime& Engine::runtime() const {
  return state_->execution->programs.runtime();
}
int64_t Engine::step_count() const {
  return state_->run.steps_done();
}

// ---- data ----

const BatchSource& Engine::batches() const {
  return state_->run.batches();
}

DataPosition Engine::position() const {
  const BatchSource& batches = state_->run.batches();
  return {step_count(), batches.taken() - runtime().steps_in_flight(), batches.parts(),
          batches.part_weights()};
}

void Engine::set_position(const DataPosition& position) {
  State& s = *state_;
  s.check_between_steps("set_position()");
  s.run.set_position(position);
  s.execution->gradients.drop();
}

const Batch& Engine::next_batch() {
  return state_->run.batches().next();
}

BatchRange Engine::dataloader(int64_t batches) {
  return BatchRange(*this, batches);
}

// ---- whole steps ----

StepResult Engine::step(const Observer* observer) {
  State& s = *state_;
  s.check_begins("step()");
  s.check_between_steps("step()");
  s.execution->steps.begin(s.run.batches().take(), observer);
  return s.execution->steps.end();
}

StepResult Engine::step(const Batch& batch, const Observer* observer) {
  State& s = *state_;
  s.check_begins("step()");
  s.check_between_steps("step()");
  s.execution->steps.begin(batch, observer);
  return s.execution->steps.end();
}

void Engine::begin_step() {
  State& s = *state_;
  s.check_begins("begin_step()");
  ensure(runtime().steps_in_flight() < kMaxStepsInFlight,
         "fewer steps are in flight than there may be");
  s.execution->steps.begin(s.run.batches().take());
}

StepResult Engine::end_step() {
  return state_->execution->steps.end();
}

void Engine::set_learning_rate(std::optional<double> rate) {
  if (rate && !(std::isfinite(*rate) && *rate >= 0))
    throw UserError("the learning rate " + std::to_string(*rate) + " is not possible",
                    "it must be a number of at least 0",
                    "give one, or nothing to go back to the schedule", ExitCode::kUsage);
  state_->run.set_rate(rate);
}

std::optional<double> Engine::own_learning_rate() const {
  return state_->run.own_rate();
}

// ---- manual gradient accumulation ----

double Engine::accumulate(const Batch& batch) {
  State& s = *state_;
  s.check_trains();
  s.check_between_steps("accumulate()");
  check_accumulates(config().train.precision);
  const int64_t step = step_count();
  return s.execution->gradients.accumulate(batch, step, s.run.rate(step),
                                           s.run.batches().wait_of(batch));
}

int64_t Engine::accumulated() const {
  return state_->execution->gradients.count();
}

void Engine::all_reduce_gradients() {
  state_->execution->gradients.reduce();
}

StepResult Engine::apply_gradients() {
  RunState& run = state_->run;
  const int64_t step = run.steps_done();
  const StepResult result = state_->execution->gradients.apply(step, run.rate(step));
  run.set_steps_done(step + 1);
  return result;
}

// ---- between steps ----

void Engine::prepare() {
  State& s = *state_;
  if (purpose() == Purpose::kTrain) s.run.batches().start();
  s.execution->programs.get(Purpose::kEvaluate);
  if (s.network.language) s.execution->programs.get(Purpose::kPredict);
}

void Engine::prepare_evaluation() {
  state_->check_between_steps("prepare_evaluation()");
  state_->execution->evaluator.prepare();
}

void Engine::switch_plan(Plan plan) {
  State& s = *state_;
  s.check_between_steps("switch_plan()");
  check_none_accumulated(accumulated(), "switch_plan()");
  std::unique_ptr<Execution> next = s.executed(std::move(plan));
  next->take_variables(*s.execution);
  s.execution = std::move(next);
  s.set_rows();
}

Engine::Evaluation Engine::evaluate(int64_t batches, const OnEvaluatedBatch& on_batch) {
  state_->check_between_steps("evaluate()");
  return state_->execution->evaluator.evaluate(batches, on_batch);
}

std::vector<Range> Engine::predicted_rows_here(int64_t rows) {
  state_->check_between_steps("predicted_rows_here()");
  return state_->execution->programs.rows_read_here(Purpose::kPredict, rows);
}

TensorMap Engine::predict(const Batch& batch) {
  state_->check_between_steps("predict()");
  return state_->execution->predict(batch);
}

TextGenerator& Engine::text() {
  return state_->execution->generator;
}

TensorMap Engine::variables() {
  state_->check_between_steps("variables()");
  TensorMap values;
  for (const Variable& variable : compiled().graph.variables()) {
    const std::string& name = compiled().graph.value(variable.value).name;
    values.emplace(name, runtime().variable(name));
  }
  return values;
}

void Engine::set_variables(const TensorMap& values) {
  state_->check_between_steps("set_variables()");
  const std::vector<std::string> known = runtime().variable_names();
  for (const auto& [name, value] : values) check_variable(graph(), name, value.type());
  for (const auto& [name, value] : values) {
    if (std::ranges::find(known, name) != known.end()) runtime().set_variable(name, value);
  }
}

}  // namespace tessera
