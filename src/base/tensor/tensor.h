// Tensor types and tensors in host memory. This file knows no device, graph or mesh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/tensor/dims.h"
#include "base/tensor/dtype.h"
#include "base/units.h"

namespace tessera {

/// An element type and a shape: `f32[8,16]`, a scalar `f32[]`.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  bool operator==(const TensorType&) const = default;
};

std::string to_text(const TensorType& type);
/// The inverse of to_text.  throws  UserError
TensorType parse_tensor_type(std::string_view text);
Bytes byte_size(const TensorType& type);

/// The alignment of every tensor and of every offset in an arena.
inline constexpr int64_t kTensorAlignment = 64;

/// The next multiple of kTensorAlignment.
constexpr int64_t align_up(int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// Heap memory aligned to kTensorAlignment, zeroed.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(Bytes size);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  Bytes size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  Bytes size_{0};
};

/// A dense row-major tensor that owns its memory. It is movable; clone() copies it.
class Tensor {
 public:
  Tensor() = default;
  /// A tensor of zeros.
  explicit Tensor(TensorType type) : type_(type), buffer_(byte_size(type)) {}
  /// requires  values.size() == element_count(shape)
  template <typename T>
  static Tensor of(Shape shape, std::span<const T> values);
  template <typename T>
  static Tensor of(Shape shape, std::initializer_list<T> values) {
    return of<T>(shape, std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor scalar(T value) {
    return of<T>({}, {value});
  }
  Tensor clone() const;

  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t size() const { return element_count(type_.shape); }
  std::byte* data() { return buffer_.data(); }
  const std::byte* data() const { return buffer_.data(); }

  /// requires  elements are stored as T: see is_stored_as
  template <typename T>
  std::span<T> values() {
    ensure(is_stored_as<T>(type_.dtype), "element type of a tensor");
    return std::span(reinterpret_cast<T*>(data()), size());
  }
  template <typename T>
  std::span<const T> values() const {
    ensure(is_stored_as<T>(type_.dtype), "element type of a tensor");
    return std::span(reinterpret_cast<const T*>(data()), size());
  }

 private:
  TensorType type_;
  AlignedBuffer buffer_;
};

template <typename T>
Tensor Tensor::of(Shape shape, std::span<const T> values) {
  Tensor tensor(TensorType{dtype_of<T>(), shape});
  ensure(std::ssize(values) == tensor.size(), "as many values as the shape has elements");
  std::copy(values.begin(), values.end(), tensor.values<T>().begin());
  return tensor;
}

}  // namespace tessera
