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

/// The labels of the loss have the shape of the logits without the classes.
ValueId counted_labels(const Graph& graph, ValueId logits) {
  const Shape rows = without_last(graph.type(logits).shape);
  for (const char* name : {"labels", "labels.next"})
    if (const auto labels = graph.find_value(name); labels && graph.type(*labels).shape == rows) return *labels;
  throw InternalError("the graph has no labels for its logits");
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
  const ValueId labels = counted_labels(graph, logits);
  Builder builder(graph);
  const auto scope = builder.scope("correct");
  const ValueId likeliest = likeliest_class(builder, logits);
  // No class is below 0: a label that does not count is never hit.
  const ValueId hits = builder.cast(builder.compare("eq", likeliest, labels, "is_hit"), DType::kF32, "hits");
  graph.add_output("correct", builder.reduce_sum(hits, dims_of(builder.shape(hits)), "count"));
}

bool predicts_every_token(const Graph& graph) {
  return graph.type(graph.output("logits")).shape.size() == 3;
}

}  // namespace tessera
