// The interface for users: a network, its data, a plan, and the steps. The engine compiles graphs
// and runs the task graphs, so it uses both the compiler and the runtime.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/plan/plan.h"
#include "ir/models/network.h"
#include "training/config/config.h"
#include "training/engine/graphs.h"
#include "training/engine/internal/execution.h"
#include "training/engine/internal/metrics.h"
#include "training/engine/run_data.h"
#include "training/engine/text/sampling.h"

namespace tessera {

class BatchRange;

/// Makes the plan of an engine for its network and its settings, as auto_plan() of
/// training/automatic/auto_plan.h does.
class PlanMaker {
 public:
  using Make = std::function<Plan(const Network&, const TrainingSettings&)>;
  explicit PlanMaker(Make make) : make_(std::move(make)) {}
  Plan operator()(const Network& network, const TrainingSettings& settings) const {
    return make_(network, settings);
  }

 private:
  Make make_;
};

/// A network on the ranks of one process, for training or only for use: the state of a run
/// (training/engine/internal/run_state.h) and its execution under a plan
/// (training/engine/internal/execution.h).
///
///   threads  call from one thread
///   throws   the constructors throw UserErrors of the network, of settings that a configuration
///            file could not have, of marks, plans and data; steps
///            throw UserError (5) when the loss is not a number, and the errors of ranks
class Engine {
 public:
  Engine(Network network, TrainingSettings settings, Plan plan, std::shared_ptr<const RunData> data,
         EngineOptions options = {});
  /// The same under a plan that is made for them: `Engine(network, settings, auto_plan(4), data)`.
  Engine(Network network, TrainingSettings settings, const PlanMaker& plan,
         std::shared_ptr<const RunData> data, EngineOptions options = {});
  /// The model of a configuration.
  ///   requires  the sizes of config.model are those of `data`: set_sizes
  Engine(const RunConfig& config, Plan plan, std::shared_ptr<const RunData> data,
         EngineOptions options = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  const Network& network() const;
  /// The settings as the first plan resolved them: training/engine/data/batch_rule.h.
  const TrainingSettings& config() const;
  const Plan& plan() const;
  Purpose purpose() const;
  /// The graph of a training step, whatever the purpose.
  const Graph& graph() const;
  /// The compiled training step; for kEvaluate the compiled evaluation.
  const Compiled& compiled() const;
  Runtime& runtime();
  const Runtime& runtime() const;
  /// The number of steps that have ended.
  int64_t step_count() const;

  /// The training data: its samples, and their order from position() on.
  const BatchSource& batches() const;
  DataPosition position() const;
  /// Sets the position. Gradients that were accumulated and not applied are dropped.
  void set_position(const DataPosition& position);

  /// Executes the next training step on the next batch, of which a process makes only the rows that
  /// its ranks read.
  StepResult step(const Observer* observer = nullptr);
  /// The same on a given whole batch.
  ///   throws  UserError (65) when it does not have train.batch rows
  StepResult step(const Batch& batch, const Observer* observer = nullptr);

  // These are the two halves of a step, with which steps follow each other without a pause: a rank
  // that has finished its part of one step starts the next. While a step is in flight
  // (runtime().steps_in_flight() counts them), only these functions, set_learning_rate() and const
  // functions may be called; everything else throws UserError (2).

  /// Begins the next step, on the next batch of the training data.
  ///   requires  fewer than kMaxStepsInFlight are in flight
  void begin_step();
  /// Ends the oldest step in flight. Its time starts when it was begun, or when the previous step
  /// was done if that was later.
  StepResult end_step();

  /// The next whole batch of the training data, in the order of config().order; it stays until the
  /// next one is taken, here or by step(). Every process makes all its rows.
  const Batch& next_batch();
  /// The next `batches` of them, for a loop:
  /// `for (const Batch& batch : engine.dataloader(100)) engine.step(batch);`
  BatchRange dataloader(int64_t batches);

  // These functions are called between steps. When step() returns, the step is done on all ranks,
  // and nothing of the next step has begun except the loading of its batch. So code between two
  // steps sees every update of the previous step and none of the next one, whatever the schedule.
  // evaluate(), predict(), text(), variables() and saving do not change the results of later steps.

  /// Sets the rate of the steps that are begun from now on, instead of the rate of the schedule;
  /// nullopt restores the schedule.
  ///   state   it belongs to the run: checkpoints store it, and switch_plan() keeps it
  ///   throws  UserError (2) when it is negative or not a number
  void set_learning_rate(std::optional<double> rate);
  /// The rate that was set; nullopt: the rates are those of the schedule.
  std::optional<double> own_learning_rate() const;

  /// Compiles and loads now the programs that are otherwise compiled when they are first needed
  /// (evaluation, prediction), and starts the loader. The training step is there from the
  /// constructor on. A second call does nothing.
  void prepare();
  /// The same of the evaluation alone, before the steps of a run that is evaluated at its end.
  ///   throws  UserErrors of the program, and UserError (65) when the held-out data fills no batch
  void prepare_evaluation();

  /// Goes on under another plan, with the same variables, batches and numbers of steps: the bits of
  /// the run that follows are those of a run that is resumed under `plan` from a checkpoint of now.
  /// Programs are compiled anew. References from plan(), graph(), compiled() and runtime() end.
  ///   throws  UserError (2) when gradients were accumulated and not applied; errors of the plan,
  ///   as
  ///           the constructor: then the engine goes on under its present plan
  ///   memory  both executions at the same time, until the variables are copied
  void switch_plan(Plan plan);

  // These functions divide a step into parts (gradient accumulation). They compute what step()
  // computes on all the batches together when each counts as many tokens, but dropout has other
  // random numbers in each batch. Gradients are no part of variables(): accumulated gradients that
  // were not applied are lost with the engine. A step that is not in parts belongs before the first
  // accumulate() or after apply_gradients(): between them step() and begin_step() throw
  // UserError (2). set_position() drops the accumulated gradients.

  /// Runs forward and backward of a batch of config().train.batch rows. Its gradients are added to
  /// the accumulated ones on the rank that produces them, without an exchange between data-parallel
  /// ranks (no_sync, in PyTorch).
  ///   returns  the mean loss of the batch
  ///   throws   UserError: 65 when the batch has another number of rows, 5 when the loss is not a
  ///            number
  ///   memory   the first call allocates three more buffers of the gradients' size
  double accumulate(const Batch& batch);
  /// The number of batches that were accumulated since the last apply_gradients().
  int64_t accumulated() const;
  /// Sums the accumulated gradients over the ranks. Gradients that are partial over the same axes
  /// and divided in no dim are exchanged as one tensor per mesh. Those that the plan divides (tp,
  /// zero) are exchanged one by one. Does nothing when nothing was accumulated since the last call.
  ///   throws  UserError (2) when nothing was accumulated since the last step
  void all_reduce_gradients();
  /// Ends the step: clips and applies the mean over the accumulate() calls, in which each counts
  /// alike. It calls all_reduce_gradients() first when that was not done. The loss of the result is
  /// the mean too; its tokens and times are sums.
  ///   throws  UserError (2) when nothing was accumulated since the last step
  StepResult apply_gradients();

  using Evaluation = tessera::Evaluation;
  /// Evaluates the first `batches` batches of the held-out data (0: all), in order, without
  /// dropout.
  Evaluation evaluate(int64_t batches, const OnEvaluatedBatch& on_batch = {});

  /// The results of the prediction graph for the rows of `batch`, by the names of its outputs. It
  /// is compiled when it is first used with a number of rows.
  ///   throws  UserError (65) when the batch lacks what the graph reads
  TensorMap predict(const Batch& batch);
  /// The rows of a batch of `rows` rows that ranks of this process read in predict(); its other
  /// rows may have any content.
  std::vector<Range> predicted_rows_here(int64_t rows);

  /// Predicts and generates tokens, if the network is of text: `engine.text().generate(...)`. It is
  /// gone after switch_plan().
  TextGenerator& text();

  /// Parameters and optimizer state; of an engine that evaluates, the variables that it has.
  TensorMap variables();
  /// Sets some or all of them. An engine that evaluates skips those that only training has.
  ///   throws  UserError (65) when the network has no variable of a name (with the nearest one), or
  ///           has it with another type; then none is set
  void set_variables(const TensorMap& values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The batches of Engine::dataloader, one after the other. Each is taken when the loop reaches it
/// and stays until the next one.
class BatchRange {
 public:
  BatchRange(Engine& engine, int64_t batches) : engine_(&engine), batches_(batches) {}

  class Iterator {
   public:
    Iterator(Engine& engine, int64_t left) : engine_(&engine), left_(left) { take(); }
    const Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      --left_;
      take();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return left_ <= 0; }

   private:
    void take() {
      if (left_ > 0) batch_ = &engine_->next_batch();
    }
    Engine* engine_;
    int64_t left_;
    const Batch* batch_ = nullptr;
  };
  Iterator begin() const { return {*engine_, batches_}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  Engine* engine_;
  int64_t batches_;
};

}  // namespace tessera
