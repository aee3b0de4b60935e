// What a model is worth on text that training never sees: one evaluation, and the numbers that are
// read from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tessera {

/// One evaluation, over the counted tokens: those that have a label.
struct Evaluation {
  double loss = 0;               // mean, in nats a token
  double accuracy = 0;           // the fraction of them that the likeliest token hits
  int64_t tokens = 0;            // labels that were counted: tokens, images or pixels
  int64_t bytes = 0;             // of the text that the tokens stand for
  int64_t batches = 0;           // of the held-out data, that were evaluated
  int64_t held_out_batches = 0;  // all there are
  /// Of models of pixels: |predicted and labelled| / |predicted or labelled| of each class, mean
  /// over the classes that occur.
  std::optional<double> intersection_over_union = {};
};

/// exp(loss): among how many equally likely tokens the model would be as unsure.
double perplexity(const Evaluation& evaluation);
/// Comparable between vocabularies: loss x tokens / (ln 2 x bytes); 0 without a byte.
double bits_per_byte(const Evaluation& evaluation);

/// A number that is read from an evaluation.
struct Metric {
  std::string_view name;
  double (*of)(const Evaluation&) = nullptr;
};
/// loss, perplexity, accuracy, bits_per_byte: what logs and results show, in this order.
std::span<const Metric> metrics();

/// Appends the output "correct" f32[]: how many counted labels are the likeliest token. Of several
/// that are equally likely the first is taken, so that a model that knows nothing is right once in
/// a vocabulary.
///
///   requires  the graph is that of build_model with a loss
///   exact     up to 2^24 tokens
void add_correct_count(Graph& graph);

/// Appends the outputs "intersections" and "unions" f32[classes]: of the counted pixels, how many
/// are of the class by both the labels and the likeliest class, and how many by either.
///
///   requires  add_correct_count; logits f32[batch, rows, columns, classes]
///   exact     up to 2^24 pixels
void add_iou_counts(Graph& graph);

/// Sums of the overlap counts of several batches.
class IoUAccumulator {
 public:
  void add(std::span<const float> intersections, std::span<const float> unions);
  /// Over the classes that occur; nothing when none does.
  std::optional<double> mean() const;

 private:
  std::vector<double> intersections_, unions_;
};

/// How many places of a row the model of this graph predicts, the last ones: all of the context,
/// the second half, or the last.
int64_t predicted_positions(const Graph& graph);

}  // namespace tessera
