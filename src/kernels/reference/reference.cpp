#include "kernels/reference/reference.h"

#include <cmath>
#include <cstring>

namespace tessera {
namespace reference {
namespace {

template <typename T>
double read_as(const std::byte* data, int64_t index) {
  constexpr int64_t kSize = sizeof(T);
  T value;
  std::memcpy(&value, data + index * kSize, kSize);
  if constexpr (requires { value.to_double(); })
    return value.to_double();
  else
    return value;
}

template <typename T>
void write_as(std::byte* data, int64_t index, T value) {
  constexpr int64_t kSize = sizeof(T);
  std::memcpy(data + index * kSize, &value, kSize);
}

}  // namespace

double read(const TensorType& type, const std::byte* data, int64_t index) {
  if (type.dtype == DType::kF32) return read_as<float>(data, index);
  if (type.dtype == DType::kI32) return read_as<int32_t>(data, index);
  if (type.dtype == DType::kF16) return read_as<Float16>(data, index);
  if (type.dtype == DType::kBF16) return read_as<BFloat16>(data, index);
  return read_as<uint8_t>(data, index);
}

int64_t read_integer(const TensorType& type, const std::byte* data, int64_t index) {
  return static_cast<int64_t>(read(type, data, index));
}

int32_t wrapped(int64_t value) {
  return static_cast<int32_t>(static_cast<uint32_t>(value));
}

void write(const TensorType& type, std::byte* data, int64_t index, double value) {
  if (type.dtype == DType::kF32) return write_as(data, index, static_cast<float>(value));
  if (type.dtype == DType::kI32) return write_as(data, index, wrapped(static_cast<int64_t>(value)));
  if (type.dtype == DType::kF16) return write_as(data, index, Float16(value));
  if (type.dtype == DType::kBF16) return write_as(data, index, BFloat16(value));
  write_as<uint8_t>(data, index, value != 0.0);
}

int64_t flat_index(const Shape& shape, const Dims& position) {
  int64_t flat = 0;
  for (int dim = 0; dim < shape.size(); ++dim) flat = flat * shape[dim] + position[dim];
  return flat;
}

Dims position_of(const Shape& shape, int64_t flat) {
  Dims position = Dims::filled(shape.size(), 0);
  for (int dim = shape.size() - 1; dim >= 0; --dim) {
    position[dim] = flat % shape[dim];
    flat /= shape[dim];
  }
  return position;
}

}  // namespace reference

BoundKernel bind_reference_kernel(const LocalCall& call) {
  for (auto family : {reference::dot, reference::elementwise, reference::movement,
                      reference::reduce, reference::gather, reference::gather_nd, reference::order,
                      reference::scan, reference::grouped, reference::dynamic, reference::random,
                      reference::attention, reference::spatial})
    if (reference::Run run = family(call)) return {run, Bytes(0)};
  throw InternalError("no reference kernel is called '" + call.kernel + "'");
}

}  // namespace tessera
