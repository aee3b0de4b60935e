#include "engine/metrics.h"

#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/builder.h"

namespace tessera {
namespace {

double loss_of(const Evaluation& evaluation) {
  return evaluation.loss;
}
double accuracy_of(const Evaluation& evaluation) {
  return evaluation.accuracy;
}

Shape without_last(const Shape& shape) {
  return Shape(std::span<const int64_t>(shape.begin(), shape.end() - 1));
}

/// What the loss compares the logits with: the labels that the family of the model picked, by the op that finds those that count.
ValueId counted_labels(const Graph& graph) {
  const auto is_valid = graph.find_op("loss.is_valid");
  ensure(is_valid.has_value(), "the loss finds the labels that count");
  return graph.op(*is_valid).inputs.front();
}

std::vector<int64_t> dims_of(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < shape.size(); ++dim) dims.push_back(dim);
  return dims;
}

/// The likeliest class of each row, the first of several: the least number among the classes that reach the maximum.
ValueId likeliest_class(Builder& builder, ValueId logits) {
  const Shape shape = builder.shape(logits);
  const std::vector<int64_t> last{shape.size() - 1};
  const std::vector<int64_t> rows = dims_of(without_last(shape));
  const ValueId most = builder.reduce(ReduceOp::kMax, logits, last, "most");
  const ValueId in_rows = builder.broadcast(most, shape, rows, "most_rows");
  const ValueId reaches = builder.compare("ge", logits, in_rows, "reaches");
  const ValueId classes = builder.iota({DType::kI32, shape}, static_cast<int>(last.front()), "classes");
  const ValueId none = builder.constant({DType::kI32, shape}, static_cast<double>(shape[shape.size() - 1]), "none");
  return builder.reduce(ReduceOp::kMin, builder.select(reaches, classes, none, "candidates"), last, "likeliest");
}

}  // namespace

double perplexity(const Evaluation& evaluation) {
  return std::exp(evaluation.loss);
}

double bits_per_byte(const Evaluation& evaluation) {
  if (evaluation.bytes == 0) return 0;
  return evaluation.loss * static_cast<double>(evaluation.tokens) / (std::numbers::ln2 * static_cast<double>(evaluation.bytes));
}

std::span<const Metric> metrics() {
  static constexpr std::array<Metric, 4> kMetrics{
      {{"loss", loss_of}, {"perplexity", perplexity}, {"accuracy", accuracy_of}, {"bits_per_byte", bits_per_byte}}};
  return kMetrics;
}

void add_correct_count(Graph& graph) {
  const ValueId logits = graph.output("logits");
  const ValueId labels = counted_labels(graph);
  Builder builder(graph);
  const auto scope = builder.scope("correct");
  const ValueId likeliest = likeliest_class(builder, logits);
  // No class is below 0: a label that does not count is never hit.
  const ValueId hits = builder.cast(builder.compare("eq", likeliest, labels, "is_hit"), DType::kF32, "hits");
  graph.add_output("correct", builder.reduce_sum(hits, dims_of(builder.shape(hits)), "count"));
}

int64_t predicted_places(const Graph& graph) {
  const Shape& shape = graph.type(graph.output("logits")).shape;
  return shape.size() == 3 ? shape[1] : 1;
}

}  // namespace tessera
