// The quality of a network on held-out data: one evaluation, and the numbers that are derived from
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/tensor.h"
#include "ir/models/network.h"
#include "runtime/runtime/runtime.h"

namespace tessera {

/// A number of logs and results; nullopt where nothing was counted.
struct MetricValue {
  std::string name;
  std::string unit;
  std::optional<double> value;
};

/// One evaluation over the counted terms of the loss. Of a model of tokens these are the tokens
/// that have a label.
struct Evaluation {
  double loss = 0;                        // mean: by the exact number of terms
  int64_t tokens = 0;                     // counted terms, rounded: tokens, images, pixels, rows
  int64_t bytes = 0;                      // the length of the text that the tokens stand for
  int64_t batches = 0;                    // evaluated batches of the held-out data
  int64_t held_out_batches = 0;           // all batches of the held-out data
  std::vector<MetricValue> metrics = {};  // those of the network, in its order

  /// The value of a metric of the network; nullopt when it has none of this name, or nothing was
  /// counted.
  std::optional<double> metric(std::string_view name) const;
};

/// Told after each batch of an evaluation: how many are done, and of how many.
using OnEvaluatedBatch = std::function<void(int64_t done, int64_t batches)>;

/// exp(loss): the number of equally probable tokens among which a model with this loss chooses.
double perplexity(const Evaluation& evaluation);
/// loss x tokens / (ln 2 x bytes), which is comparable between vocabularies; 0 without a byte.
double bits_per_byte(const Evaluation& evaluation);

/// The numbers of an evaluation in logs and results: the loss and the metrics of the network; with
/// a loss that is an entropy of tokens also perplexity, before them, and bits_per_byte, after them
/// (nullopt when the tokens stand for no text).
std::vector<MetricValue> numbers_of(const Evaluation& evaluation, const Network& network);

/// The sum and the count of a metric over the batches of an evaluation.
class MetricSums {
 public:
  explicit MetricSums(const Metric& metric) : metric_(metric) {}

  /// Adds a batch with these results of the evaluation graph. It has `rows` rows of the data,
  /// beside rows that only fill it up.
  void add(const TensorMap& results, int64_t rows);
  /// The mean of sum / count over the elements with a count; nullopt when there is none.
  MetricValue value() const;

 private:
  Metric metric_;
  std::vector<double> sums_, counts_;
};

/// The number of positions of a row of which the model predicts the next token, which are the last
/// ones: all of the context, the second half, or the last.
int64_t predicted_positions(const LanguageModel& model);

}  // namespace tessera
