#include "ir/graph/initializer.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "base/tensor/element.h"

namespace tessera {
namespace {

/// Element `index` of a variable. Each product of two f32 is exact in double, so every compiler and
/// machine rounds in the same way, with fused operations or without.
float initial_element(const Initializer& initializer, const RandomStream& stream, uint64_t index) {
  const auto a = static_cast<float>(initializer.a), b = static_cast<float>(initializer.b);
  switch (initializer.kind) {
    case Initializer::Kind::kConstant: return a;
    case Initializer::Kind::kNormal:
      return static_cast<float>(a + double{b} * stream.normal(index));
    case Initializer::Kind::kUniform:
      return static_cast<float>(a + double{b - a} * stream.uniform(index));
  }
  throw InternalError("unknown initializer");
}

/// A tensor of one value. Integers are rounded to the nearest one.
Tensor filled(const TensorType& type, double value) {
  Tensor tensor(type);
  visit_element(type.dtype, [&]<typename E>(E) {
    std::ranges::fill(tensor.values<typename E::Stored>(), E::nearest(value));
  });
  return tensor;
}

}  // namespace

Tensor initial_value(const std::string& name, const TensorType& type,
                     const Initializer& initializer, uint64_t seed, const Box& box) {
  ensure(intersect(box, whole_box(type.shape)).shape() == box.shape(),
         "the box is inside '" + name + "'");
  const TensorType part{type.dtype, box.shape()};
  if (initializer.kind == Initializer::Kind::kConstant) return filled(part, initializer.a);
  ensure(type.dtype == DType::kF32, "'" + name + "' is sampled, so it is f32");
  Tensor tensor(part);
  if (tensor.size() == 0) return tensor;
  const RandomStream stream(random_key(seed, name), 0);
  Dims index = Dims::filled(type.shape.size(), 0);
  for (float& value : tensor.values<float>()) {
    Dims global = index;
    for (int d = 0; d < global.size(); ++d) global[d] += box.ranges[d].begin;
    value = initial_element(initializer, stream, row_major_index(global, type.shape));
    advance_index(index, part.shape);
  }
  return tensor;
}

}  // namespace tessera
