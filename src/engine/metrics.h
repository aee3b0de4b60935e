// The quality of a model on held-out data: one evaluation, and the metrics that are derived from
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tessera {

/// One evaluation over the counted tokens, which are those that have a label.
struct Evaluation {
  double loss = 0;               // mean, in nats a token
  double accuracy = 0;           // the fraction of them that are the most probable token
  int64_t tokens = 0;            // counted labels: tokens, images or pixels
  int64_t bytes = 0;             // the length of the text that the tokens stand for
  int64_t batches = 0;           // evaluated batches of the held-out data
  int64_t held_out_batches = 0;  // all batches of the held-out data
  /// For models of pixels: |predicted and labelled| / |predicted or labelled| of each class,
  /// averaged over the classes that occur.
  std::optional<double> intersection_over_union = {};
};

/// exp(loss): the number of equally probable tokens among which a model with this loss chooses.
double perplexity(const Evaluation& evaluation);
/// loss x tokens / (ln 2 x bytes), which is comparable between vocabularies; 0 without a byte.
double bits_per_byte(const Evaluation& evaluation);

/// A number that is derived from an evaluation.
struct Metric {
  std::string_view name;
  double (*of)(const Evaluation&) = nullptr;
};
/// loss, perplexity, accuracy, bits_per_byte: the metrics of logs and results, in this order.
std::span<const Metric> metrics();

/// Appends the output "correct" f32[]: how many counted labels are the most probable token. Among
/// equally probable tokens the first one is taken, so that a model that knows nothing is right once
/// in a vocabulary.
///
///   requires  the graph is that of build_model with a loss
///   exact     up to 2^24 tokens
void add_correct_count(Graph& graph);

/// Appends the outputs "intersections" and "unions" f32[classes]. They count the counted pixels
/// that are of the class both by the label and by the most probable class, and those that are by
/// either.
///
///   requires  add_correct_count; logits f32[batch, rows, columns, classes]
///   exact     up to 2^24 pixels
void add_iou_counts(Graph& graph);

/// Sums of the IoU counts of several batches.
class IoUAccumulator {
 public:
  void add(std::span<const float> intersections, std::span<const float> unions);
  /// The mean over the classes that occur; nullopt when none occurs.
  std::optional<double> mean() const;

 private:
  std::vector<double> intersections_, unions_;
};

/// The number of positions of a row that the model of this graph predicts, which are the last ones:
/// all of the context, the second half, or the last.
int64_t predicted_positions(const Graph& graph);

}  // namespace tessera
