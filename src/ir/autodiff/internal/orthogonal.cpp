#include "ir/autodiff/internal/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tessera {
namespace {

constexpr int kSteps = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kEpsilon = 1e-7;
constexpr double kScale = 0.2;

/// As many letters of an einsum, from `first` on.
std::string letters(char first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += static_cast<char>(first + i);
  return text;
}

/// One iteration.
///   from_rows  A = X X^T
ValueId iterated(Builder& builder, ValueId x, int input_dims, bool from_rows) {
  const int64_t dims = builder.shape(x).size();
  const int64_t own = from_rows ? input_dims : dims - input_dims;
  // The dims of the first side of A, of its second side, between two factors A, and those that A
  // sums over.
  const std::string a = letters('a', own), b = letters('A', own), between = letters('I', own);
  const std::string summed = letters('p', dims - own);
  const auto matrix = [&](const std::string& side) {
    return from_rows ? side + summed : summed + side;
  };
  const ValueId gram = builder.dot(x, x, matrix(a) + "," + matrix(b) + "->" + a + b, "gram");
  const ValueId square =
      builder.dot(gram, gram, a + between + "," + between + b + "->" + a + b, "gram_square");
  const ValueId factor = builder.add(builder.mul_scalar(gram, kB, "linear"),
                                     builder.mul_scalar(square, kC, "cubic"), "factor");
  const ValueId product =
      builder.dot(factor, x, a + b + "," + matrix(b) + "->" + matrix(a), "product");
  return builder.add(builder.mul_scalar(x, kA, "kept"), product, "iterate");
}

}  // namespace

ValueId norm_of(Builder& builder, ValueId value, const std::string& name) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < builder.shape(value).size(); ++dim) dims.push_back(dim);
  const ValueId square = builder.unary("square", value, name + ".square");
  return builder.unary("sqrt", builder.reduce_sum(square, dims, name + ".sum"), name);
}

ValueId orthogonalized(Builder& builder, ValueId value, int input_dims) {
  const Shape shape = builder.shape(value);  // ops that are added move the original
  int64_t rows = 1, columns = 1;
  for (int d = 0; d < shape.size(); ++d) (d < input_dims ? rows : columns) *= shape[d];
  const double scale = kScale * std::sqrt(static_cast<double>(std::max(rows, columns)));
  const ValueId length = builder.add_scalar(norm_of(builder, value, "norm"), kEpsilon, "norm_plus");
  ValueId x = builder.div(value, builder.broadcast(length, shape, {}, "length"), "unit");
  for (int i = 0; i < kSteps; ++i) x = iterated(builder, x, input_dims, rows <= columns);
  return builder.mul_scalar(x, scale, "direction");
}

}  // namespace tessera
