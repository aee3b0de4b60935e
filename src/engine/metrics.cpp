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

/// The labels with which the loss compares the logits: those that the family of the model selected.
/// They are found through the op that finds the labels that count.
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

/// The most probable class of each row; of several, the first: the least number among the classes
/// with the maximum.
ValueId likeliest_class(Builder& builder, ValueId logits) {
  const Shape shape = builder.shape(logits);
  const std::vector<int64_t> last{shape.size() - 1};
  const std::vector<int64_t> rows = dims_of(without_last(shape));
  const ValueId most = builder.reduce(ReduceOp::kMax, logits, last, "most");
  const ValueId in_rows = builder.broadcast(most, shape, rows, "max_rows");
  const ValueId reaches = builder.compare("ge", logits, in_rows, "reaches");
  const ValueId classes =
      builder.iota({DType::kI32, shape}, static_cast<int>(last.front()), "classes");
  const ValueId none =
      builder.constant({DType::kI32, shape}, static_cast<double>(shape[shape.size() - 1]), "none");
  return builder.reduce(ReduceOp::kMin, builder.select(reaches, classes, none, "candidates"), last,
                        "likeliest");
}

}  // namespace

double perplexity(const Evaluation& evaluation) {
  return std::exp(evaluation.loss);
}

double bits_per_byte(const Evaluation& evaluation) {
  if (evaluation.bytes == 0) return 0;
  return evaluation.loss * static_cast<double>(evaluation.tokens) /
         (std::numbers::ln2 * static_cast<double>(evaluation.bytes));
}

std::span<const Metric> metrics() {
  static constexpr std::array<Metric, 4> kMetrics{{{"loss", loss_of},
                                                   {"perplexity", perplexity},
                                                   {"accuracy", accuracy_of},
                                                   {"bits_per_byte", bits_per_byte}}};
  return kMetrics;
}

void add_correct_count(Graph& graph) {
  const ValueId logits = graph.output("logits");
  const ValueId labels = counted_labels(graph);
  Builder builder(graph);
  const auto scope = builder.scope("correct");
  const ValueId likeliest = likeliest_class(builder, logits);
  // No class is below 0, so a label that does not count is never equal.
  const ValueId hits =
      builder.cast(builder.compare("eq", likeliest, labels, "is_hit"), DType::kF32, "hits");
  graph.add_output("correct", builder.reduce_sum(hits, dims_of(builder.shape(hits)), "count"));
}

void add_iou_counts(Graph& graph) {
  const ValueId likeliest = *graph.find_value("correct.likeliest");
  const ValueId labels = counted_labels(graph);
  Builder builder(graph);
  const auto scope = builder.scope("overlap");
  const Shape shape = builder.shape(graph.output("logits"));
  const std::vector<int64_t> pixels = dims_of(without_last(shape));
  const ValueId classes = builder.iota({DType::kI32, shape}, shape.size() - 1, "classes");
  const auto is_of = [&](ValueId chosen, const std::string& name) {
    const ValueId spread = builder.broadcast(chosen, shape, pixels, name + "_spread");
    return builder.cast(builder.compare("eq", spread, classes, name), DType::kF32, name + "_count");
  };
  const ValueId predicted = is_of(likeliest, "predicted"), labelled = is_of(labels, "labelled");
  const ValueId spread_labels = builder.broadcast(labels, shape, pixels, "labels");
  const ValueId none = builder.constant({DType::kI32, shape}, 0, "none");
  const ValueId counted = builder.cast(builder.compare("ge", spread_labels, none, "is_counted"),
                                       DType::kF32, "counted");
  const ValueId both = builder.mul(predicted, labelled, "both");
  const ValueId either =
      builder.mul(builder.maximum(predicted, labelled, "any"), counted, "either");
  graph.add_output("intersections", builder.reduce_sum(both, pixels, "intersections"));
  graph.add_output("unions", builder.reduce_sum(either, pixels, "unions"));
}

void IoUAccumulator::add(std::span<const float> intersections, std::span<const float> unions) {
  intersections_.resize(unions.size());
  unions_.resize(unions.size());
  for (size_t i = 0; i < unions.size(); ++i) {
    intersections_[i] += static_cast<double>(intersections[i]);
    unions_[i] += static_cast<double>(unions[i]);
  }
}

std::optional<double> IoUAccumulator::mean() const {
  double sum = 0;
  int classes = 0;
  for (size_t i = 0; i < unions_.size(); ++i) {
    if (unions_[i] == 0) continue;
    sum += intersections_[i] / unions_[i];
    ++classes;
  }
  return classes > 0 ? std::optional(sum / classes) : std::nullopt;
}

int64_t predicted_positions(const Graph& graph) {
  const Shape& shape = graph.type(graph.output("logits")).shape;
  return shape.size() == 3 ? shape[1] : 1;
}

}  // namespace tessera
