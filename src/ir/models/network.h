// A network to train: its forward graphs, and what training, evaluation and prediction need to know
// about them. Anyone can build one in C++; the families of models are built by ir/models/family.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/autodiff/optimizer.h"
#include "ir/graph/graph.h"
#include "ir/models/internal/model_config.h"
#include "ir/models/layers.h"
#include "ir/ops/builder.h"

namespace tessera {

/// What a forward graph computes.
enum class ForwardPurpose {
  kTraining,    // the loss, with dropout
  kEvaluation,  // the loss and what the metrics read, without dropout
  kPrediction,  // results without targets and loss
  /// What LanguageModel says: logits of one position of a row, with state of the earlier ones.
  kDecoding,
};
std::string_view to_text(ForwardPurpose purpose);  // "training", "evaluation", ...

struct Network;

/// A forward graph under construction, for one purpose and a number of rows.
class Forward {
 public:
  /// `network` and `builder` outlive it.
  Forward(const Network& network, ForwardPurpose purpose, int64_t rows, Builder& builder)
      : network_(network), builder_(builder), purpose_(purpose), rows_(rows) {}

  ForwardPurpose purpose() const { return purpose_; }
  bool is_training() const { return purpose_ == ForwardPurpose::kTraining; }
  /// Does the graph have targets and a loss?
  bool has_loss() const { return is_training() || purpose_ == ForwardPurpose::kEvaluation; }
  /// The rows of the batch.
  int64_t rows() const { return rows_; }

  Builder& builder() { return builder_; }
  /// The context of the layers of ir/models/layers.h. When training it has the input `step`, from
  /// which dropout takes its random numbers; when decoding the input `place`.
  LayerContext layers();

  /// The field `name` of the data, of which a sample has the type `sample`: an input with the dim
  /// of the rows in front. Its name does not depend on the scope; a second call returns the same
  /// value. The rows of the first input are what data parallelism divides.
  ValueId input(std::string_view name, const TensorType& sample);
  /// Names a result.
  void output(const std::string& name, ValueId value);

 private:
  ValueId graph_input(std::string_view name, const TensorType& type);

  const Network& network_;
  Builder& builder_;
  ForwardPurpose purpose_;
  int64_t rows_;
};

/// A number of an evaluation. `sum` and `count` are outputs of the evaluation graph, of one type
/// f32[] or f32[n]; both are added up over its batches. The metric is sum / count, with n elements
/// the mean of the n quotients. Elements whose count is 0 are left out.
struct Metric {
  std::string name;        // "accuracy": letters, digits and _
  std::string sum;         // an output: "correct"
  std::string count = {};  // an output: "count"; "": the rows of the data
  std::string unit = {};   // for readers: "pixels"
};

/// What predict() and generate() of text need. The prediction graph has the input tokens
/// i32[rows, context] and the output logits f32[rows, positions, V] or f32[rows, V]. The decoding
/// graph has the inputs tokens i32[1, 1] and place i32[], and the output logits f32[1, 1, V].
struct LanguageModel {
  int64_t context = 0;
  bool can_decode = false;
  /// The position of the prediction of the token after `used` known tokens, of at most `context`.
  std::function<NextToken(int64_t used)> next_token = {};
};

/// Example: examples/07_own_network/main.cpp.
struct Network {
  std::string name = "the network";  // in messages: "the classifier of digits"
  /// Writes the graph of a purpose. Every call writes the same variables; graphs for training and
  /// evaluation have the outputs that are named below.
  std::function<void(Forward& forward)> forward = {};
  /// The output that is trained, f32[]: a mean over the counted terms.
  std::string loss = "loss";
  /// The output with the number of these terms, f32[]. "": every row counts once.
  std::string count = {};
  /// Is the loss a cross entropy in nats? Then logs have its perplexity and bits per byte.
  bool loss_is_entropy = false;
  std::vector<Metric> metrics = {};
  std::vector<ParameterGroup> groups = {};
  /// Patterns of the parameters that are trained, as in marks; empty: all.
  std::vector<std::string> trained = {};
  /// Rank 0: none. With adapters, set `trained` to their patterns (ir/models/lora.h).
  Lora lora = {};
  /// The input whose elements are counted as trained units (StepResult::tokens); "": the rows are.
  std::string targets = {};
  /// The value of elements i32 of `targets` that are in no count and no sum. With it, the last
  /// batch of an evaluation may be filled up with such rows; without it, samples that fill no batch
  /// are left out.
  std::optional<int32_t> ignored_target = {};
  std::string learns = {};  // in messages: "the next token"
  std::optional<LanguageModel> language = {};
  OperatorSetPtr operators = {};  // of the user (ir/ops/operator_set.h)
};

/// Checks what can be checked without a graph.
///   throws  UserError (78): no forward function, two metrics of one name, an ignored target
///   without
///           targets or count
void check(const Network& network);

}  // namespace tessera
