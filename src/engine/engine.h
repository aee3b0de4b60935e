// What users call: a model, its text, a plan, and the steps. It joins the two halves: it compiles graphs and hands task graphs to the
// runtime.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/sampling.h"
#include "lower/lower.h"
#include "runtime/runtime.h"

namespace tessera {

/// Text read, cut and ready; the same for every plan.
struct TextData {
  Vocabulary vocabulary = Vocabulary::bytes();
  std::shared_ptr<const TextDataset> train;
  std::shared_ptr<const TextDataset> held_out;
  double bigram_entropy = 0;  // conditional, of the held-out tokens, nats a token
  int64_t train_tokens = 0;
  int64_t held_out_tokens = 0;
};
/// With the vocabulary of a model that was trained before, or else that of the text.
/// throws  UserError: 66 a path is missing, 65 there is too little text, or a character that is not in the vocabulary
TextData load_text(const DataConfig& config, int64_t context, const std::optional<Vocabulary>& vocabulary = {});

/// The serial training graph of a configuration: forward, backward, optimizer.
Graph training_graph(const RunConfig& config);
/// Forward and loss without dropout, over `batch` rows.
Graph evaluation_graph(const RunConfig& config, int64_t batch);
/// Logits of one row without dropout.
Graph prediction_graph(const RunConfig& config);

/// kEvaluate: no training step is compiled, and no optimizer state is kept.
enum class Purpose { kTrain, kEvaluate };

struct EngineOptions {
  RuntimeOptions runtime;
  RuleLookup rules = catalogue_rule;
  Purpose purpose = Purpose::kTrain;
  /// Whether the variables are drawn from the seed; else they are zero until they are given: see engine/checkpointing.h.
  bool draw = true;
};

/// How far a run has come in its text.
struct DataPosition {
  int64_t step = 0;   // of the next batch, through all epochs
  int64_t parts = 1;  // data-parallel parts that the sampler divides a batch into
};

struct StepResult {
  int64_t step = 0;  // from 0
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;  // 0 without clipping
  int64_t tokens = 0;
  Seconds time{0};
};

/// A model in training, or only in use, on the ranks of one process.
///
///   threads  call from one thread
///   throws   from the constructor: UserErrors of marks, plans and data; from steps: UserError (5) when the loss is not a number, and what
///   a rank threw
class Engine {
 public:
  /// config.model.vocabulary must be that of `data`.
  Engine(RunConfig config, Plan plan, std::shared_ptr<const TextData> data, EngineOptions options = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  const RunConfig& config() const;
  const Plan& plan() const;
  Purpose purpose() const;
  const TextData& data() const;
  /// Of a training step, whatever the purpose.
  const Graph& graph() const;
  /// The training step; for kEvaluate the evaluation.
  const Compiled& compiled() const;
  Runtime& runtime();
  int64_t step_count() const;

  /// Which batches the run takes: those of the sampler from this step on. Another run goes on with them, under whatever plan.
  Sampler sampler() const;
  DataPosition position() const;
  void set_position(const DataPosition& position);

  /// The next training step on the next batch.
  StepResult step(const Observer* observer = nullptr);
  /// The same, with a given whole batch.
  StepResult step(const TextBatch& batch, const Observer* observer = nullptr);
  /// `steps` steps; `on_step` after each (return false to stop).
  std::vector<StepResult> fit(int64_t steps, const std::function<bool(const StepResult&)>& on_step = {});

  struct Evaluation {
    double loss = 0;  // mean over the counted tokens
    int64_t tokens = 0;
  };
  /// Mean loss of the first `batches` batches of the held-out text, in order, without dropout.
  Evaluation evaluate(int64_t batches);

  /// Logits of the token after `tokens`, of which the last `context` count; shorter ones are padded in front with token 0.
  std::vector<float> predict(const std::vector<int32_t>& tokens);

  /// `count` tokens drawn after `prompt`, each from the logits after all before it. The same under every plan up to rounding of the logits.
  std::vector<int32_t> generate(std::vector<int32_t> prompt, int64_t count, const SamplingOptions& options);

  TensorMap variables();
  void set_variables(const TensorMap& values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
