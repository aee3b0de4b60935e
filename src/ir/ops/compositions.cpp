#include "ir/ops/compositions.h"

#include <numeric>

namespace tessera {

ValueId where(Builder& builder, ValueId condition, ValueId a, ValueId b, std::string_view name) {
  const Shape shape = builder.shape(a);
  return builder.select(builder.broadcast_leading(condition, shape), a, b, name);
}

ValueId clamp(Builder& builder, ValueId x, double low, double high, std::string_view name) {
  if (!(low <= high))
    throw UserError(
        "clamp '" + builder.path(name.empty() ? "clamp" : name) + "': low " +
            to_text(Attribute(low)) + " is not at most high " + to_text(Attribute(high)),
        "no number is between them", "exchange the two, or correct them", ExitCode::kBadData);
  return builder.min_scalar(builder.max_scalar(x, low), high, name);
}

ValueId one_hot(Builder& builder, ValueId ids, int64_t classes, std::string_view name) {
  Shape shape = builder.shape(ids);
  std::vector<int64_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  shape.push_back(classes);
  const ValueId wanted = builder.broadcast(ids, shape, dims);
  const ValueId numbers = builder.iota({DType::kI32, shape}, shape.size() - 1);
  return builder.cast(builder.compare("eq", wanted, numbers), DType::kF32, name);
}

ValueId is_nan(Builder& builder, ValueId x, std::string_view name) {
  return builder.compare("ne", x, x, name);
}

// The difference of an infinity with itself is NaN, and no number is equal to NaN.
ValueId is_finite(Builder& builder, ValueId x, std::string_view name) {
  const ValueId nothing = builder.sub(x, x);
  const ValueId zeros = builder.constant(builder.type(x), 0);
  return builder.compare("eq", nothing, zeros, name);
}

Ordered sort(Builder& builder, ValueId x, int dim, bool descending, std::string_view name) {
  const std::vector<ValueId> results =
      builder.op("sort", {x}, {{"dim", int64_t{dim}}, {"descending", descending}}, name);
  return {results.at(0), results.at(1)};
}

Ordered top_k(Builder& builder, ValueId x, int dim, int64_t k, std::string_view name) {
  const std::vector<ValueId> results =
      builder.op("top_k", {x}, {{"dim", int64_t{dim}}, {"k", k}}, name);
  return {results.at(0), results.at(1)};
}

}  // namespace tessera
