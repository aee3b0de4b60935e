// What users call: a model, its data, a plan, and the steps. It joins the two halves: it compiles
// graphs and hands task graphs to the runtime.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/graphs.h"
#include "engine/metrics.h"
#include "engine/run_data.h"
#include "engine/sampling.h"
#include "lower/lower.h"
#include "runtime/runtime.h"

namespace tessera {

/// kEvaluate: no training step is compiled, and no optimizer state is kept.
enum class Purpose { kTrain, kEvaluate };

struct EngineOptions {
  RuntimeOptions runtime;
  RuleLookup rules = catalogue_rule;
  bool check_placements = true;  // CompileOptions
  Purpose purpose = Purpose::kTrain;
  /// Whether the variables are drawn from the seed; else they are zero until they are given: see
  /// engine/checkpointing.h.
  bool draw = true;
};

/// How far a run has come in its data.
struct DataPosition {
  int64_t step = 0;  // steps done
  int64_t batch =
      0;  // number of the next batch, through all epochs: with accumulation a step takes several
  int64_t parts = 1;  // data-parallel parts that the sampler divides a batch into
};

struct StepResult {
  int64_t step = 0;  // from 0
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;  // 0 without clipping
  int64_t tokens = 0;    // labels of the batch: tokens, images or pixels
  Seconds time{0};       // without data_wait
  Seconds data_wait{0};  // for the loader
};

class BatchRange;

/// A model in training, or only in use, on the ranks of one process.
///
///   threads  call from one thread
///   throws   from the constructor: UserErrors of marks, plans and data; from steps: UserError (5)
///   when the loss is not a number, and what a rank threw
class Engine {
 public:
  /// The sizes of config.model must be those of `data`: set_sizes.
  Engine(RunConfig config, Plan plan, std::shared_ptr<const RunData> data,
         EngineOptions options = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  const RunConfig& config() const;
  const Plan& plan() const;
  Purpose purpose() const;
  const RunData& data() const;
  /// Of a training step, whatever the purpose.
  const Graph& graph() const;
  /// The training step; for kEvaluate the evaluation.
  const Compiled& compiled() const;
  Runtime& runtime();
  const Runtime& runtime() const;
  /// Steps that have ended.
  int64_t step_count() const;

  /// Which batches the run takes: those of the sampler, from its position on. Another run goes on
  /// with them, under whatever plan.
  Sampler sampler() const;
  DataPosition position() const;
  /// Gradients that were accumulated and not applied are dropped.
  void set_position(const DataPosition& position);

  /// The next training step on the next batch.
  StepResult step(const Observer* observer = nullptr);
  /// The same, with a given whole batch.  throws  UserError (65) when it has not train.batch rows
  StepResult step(const Batch& batch, const Observer* observer = nullptr);

  // The same in two halves, so that steps follow each other without a pause: the ranks that are
  // through with one take up the next. While a step is under way only these, set_learning_rate()
  // and what is const may be called; all else throws UserError (2).

  /// Begins the next step, on the next batch of the training data.  requires  fewer than
  /// kStepsUnderWay are under way
  void begin_step();
  /// Ends the oldest. Its time is from when it was begun, or the one before it was done, until it
  /// was done.
  StepResult end_step();
  /// Begun and not ended.
  int steps_under_way() const;

  /// The next whole batch of the training data, in the order of config().data; it stays until the
  /// next one is taken, here or by step().
  const Batch& next_batch();
  /// The next `batches` of them: `for (const Batch& batch : engine.dataloader(100))
  /// engine.run(batch);`
  BatchRange dataloader(int64_t batches);
  /// The same as step(batch).
  StepResult run(const Batch& batch);

  // Between steps. A step is done on all ranks when step() returns, and nothing of the next one has
  // begun but the loading of its batch. So what comes between two steps waits for nothing: it sees
  // every update of the step before it and none of the step after, whatever the schedule; and
  // evaluate(), predict(), generate(), variables() and saving leave the steps after them what they
  // would have been.

  /// The rate of the steps that are begun from now on, instead of the schedule's; nothing: the
  /// schedule again, at the step where it would be.
  ///   throws  UserError (2) when it is negative or no number
  void set_learning_rate(std::optional<double> rate);

  /// Compiles and loads now what is otherwise made when it is first needed: evaluation, prediction,
  /// the loader. The training step is there from the constructor on. A second call does nothing.
  void prepare();

  // A step in parts. What it computes is what step() computes on all the batches together when each
  // counts as many tokens; dropout draws other numbers for each batch. Gradients are no part of
  // variables(): what was accumulated and not applied is lost with the engine.

  /// Forward and backward of a batch of config().train.batch rows; its gradients are added to those
  /// before it where they are made, without an exchange between data-parallel ranks (what others
  /// call no_sync). Returns the batch's mean loss.
  ///   throws  UserError: 65 the batch has another number of rows, 5 the loss is not a number
  ///   memory  the first call makes three more buffers of the gradients' size
  double accumulate(const Batch& batch);
  /// Batches that were accumulated since the last step.
  int64_t accumulated() const;
  /// Adds up over the ranks what is accumulated. Gradients that are sums over the same ranks and
  /// whole otherwise travel as one tensor, in one exchange a mesh; those that the plan divides (tp,
  /// zero) each in their own. Nothing happens when there is nothing new.
  ///   throws  UserError (2) when nothing was accumulated since the last step
  void all_reduce_gradients();
  /// Ends the step: the mean over the accumulate() calls, each counting alike, is clipped and
  /// applied; all_reduce_gradients() first, where it was not called. The result's loss is the mean
  /// too, its tokens and times are sums.
  ///   throws  UserError (2) when nothing was accumulated since the last step
  StepResult apply_gradients();

  /// Batches of one pass over the training data.
  int64_t steps_per_epoch() const;

  using Evaluation = tessera::Evaluation;
  /// Over the first `batches` batches of the held-out data, in order, without dropout.
  Evaluation evaluate(int64_t batches);

  /// Logits of the token after `tokens`, of which the last `context` count; shorter ones are padded
  /// in front with token 0.
  ///   throws  UserError (2) when the model is none that predicts the next token
  std::vector<float> predict(const std::vector<int32_t>& tokens);

  /// `count` tokens drawn after `prompt`, each from the logits after all before it. The same under
  /// every plan up to rounding of the logits.
  std::vector<int32_t> generate(std::vector<int32_t> prompt, int64_t count,
                                const SamplingOptions& options);

  /// Parameters and optimizer state.
  TensorMap variables();
  void set_variables(const TensorMap& values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Batches of an engine, one after the other: Engine::dataloader. Each is taken when the loop comes
/// to it and stays until the next.
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
