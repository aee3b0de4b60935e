#include "ir/models/class_counts.h"

#include <string>
#include <vector>

namespace tessera {
namespace {

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
  const ValueId largest = builder.reduce(ReduceOp::kMax, logits, last, "most");
  const std::vector<int64_t> rows = dims_of(builder.shape(largest));
  const ValueId in_rows = builder.broadcast(largest, shape, rows, "max_rows");
  const ValueId reaches = builder.compare("ge", logits, in_rows, "reaches");
  const ValueId classes =
      builder.iota({DType::kI32, shape}, static_cast<int>(last.front()), "classes");
  const ValueId none =
      builder.constant({DType::kI32, shape}, static_cast<double>(shape[shape.size() - 1]), "none");
  return builder.reduce(ReduceOp::kMin, builder.select(reaches, classes, none, "candidates"), last,
                        "likeliest");
}

}  // namespace

CorrectCount correct_count(Builder& builder, ValueId logits, ValueId labels) {
  const auto scope = builder.scope("correct");
  const ValueId likeliest = likeliest_class(builder, logits);
  // No class is below 0, so a label that does not count is never equal.
  const ValueId hits =
      builder.cast(builder.compare("eq", likeliest, labels, "is_hit"), DType::kF32, "hits");
  return {likeliest, builder.reduce_sum(hits, dims_of(builder.shape(hits)), "count")};
}

OverlapCounts overlap_counts(Builder& builder, ValueId likeliest, ValueId labels, int64_t classes) {
  const auto scope = builder.scope("overlap");
  std::vector<int64_t> extents(builder.shape(likeliest).begin(), builder.shape(likeliest).end());
  extents.push_back(classes);
  const Shape shape{std::span<const int64_t>(extents)};
  const std::vector<int64_t> pixels = dims_of(builder.shape(likeliest));
  const ValueId numbers = builder.iota({DType::kI32, shape}, shape.size() - 1, "classes");
  const auto is_of = [&](ValueId chosen, const std::string& name) {
    const ValueId spread = builder.broadcast(chosen, shape, pixels, name + "_spread");
    return builder.cast(builder.compare("eq", spread, numbers, name), DType::kF32, name + "_count");
  };
  const ValueId predicted = is_of(likeliest, "predicted"), labelled = is_of(labels, "labelled");
  const ValueId spread_labels = builder.broadcast(labels, shape, pixels, "labels");
  const ValueId none = builder.constant({DType::kI32, shape}, 0, "none");
  const ValueId counted = builder.cast(builder.compare("ge", spread_labels, none, "is_counted"),
                                       DType::kF32, "counted");
  const ValueId both = builder.mul(predicted, labelled, "both");
  const ValueId either =
      builder.mul(builder.maximum(predicted, labelled, "any"), counted, "either");
  return {builder.reduce_sum(both, pixels, "intersections"),
          builder.reduce_sum(either, pixels, "unions")};
}

}  // namespace tessera
