// Types of tensors, as tests write them: f32({8, 4}).
#pragma once

#include <utility>

#include "base/tensor/tensor.h"

namespace tessera {

inline TensorType f32(Shape shape) {
  return {DType::kF32, std::move(shape)};
}
inline TensorType i32(Shape shape) {
  return {DType::kI32, std::move(shape)};
}

}  // namespace tessera
