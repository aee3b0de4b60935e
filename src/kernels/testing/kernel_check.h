// For tests of kernels: runs a call on tensors with either implementation, makes inputs, and
// compares.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "kernels/bind.h"
#include "kernels/kernel.h"
#include "kernels/reference/reference.h"

namespace tessera::kernel_testing {

using Tensors = std::vector<Tensor>;

inline constexpr DType kTypes[] = {DType::kF32, DType::kI32, DType::kBool};
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline std::vector<TensorType> types_of(const Tensors& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

/// Runs a bound kernel on outputs and a workspace whose bits are all ones (NaN in f32), so that
/// elements that it does not write are detected.
inline Tensors run_bound(const BoundKernel& kernel, const LocalCall& call, const Tensors& inputs) {
  Tensors outputs;
  std::vector<const std::byte*> input_data;
  std::vector<std::byte*> output_data;
  for (const Tensor& tensor : inputs) input_data.push_back(tensor.data());
  for (const TensorType& type : call.outputs) {
    Tensor& tensor = outputs.emplace_back(type);
    if (tensor.size() > 0)
      std::memset(tensor.data(), 0xFF, static_cast<size_t>(byte_size(type).value()));
    output_data.push_back(tensor.data());
  }
  AlignedBuffer workspace(kernel.workspace);
  if (workspace.size().value() > 0)
    std::memset(workspace.data(), 0xFF, static_cast<size_t>(workspace.size().value()));
  kernel.run({input_data, output_data, workspace.data()});
  return outputs;
}

inline Tensors run_fast(const LocalCall& call, const Tensors& inputs) {
  return run_bound(bind_kernel(call), call, inputs);
}
inline Tensors run_plain(const LocalCall& call, const Tensors& inputs) {
  return run_bound(bind_reference_kernel(call), call, inputs);
}

using Generator = std::mt19937;

inline int64_t random_int(Generator& generator, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator);
}
/// i32 uniform in [low, high].
inline Tensor random_ids(Generator& generator, const Shape& shape, int64_t low, int64_t high) {
  Tensor ids({DType::kI32, shape});
  for (int32_t& id : ids.values<int32_t>())
    id = static_cast<int32_t>(random_int(generator, low, high));
  return ids;
}

/// f32 uniform in [-2, 2), i32 in [-9, 9], bool.
inline Tensor random_tensor(Generator& generator, const TensorType& type) {
  Tensor tensor(type);
  if (type.dtype == DType::kF32)
    for (float& x : tensor.values<float>())
      x = std::uniform_real_distribution<float>(-2.0f, 2.0f)(generator);
  if (type.dtype == DType::kI32)
    for (int32_t& x : tensor.values<int32_t>())
      x = static_cast<int32_t>(random_int(generator, -9, 9));
  if (type.dtype == DType::kBool)
    for (uint8_t& x : tensor.values<uint8_t>())
      x = static_cast<uint8_t>(random_int(generator, 0, 1));
  return tensor;
}

/// |x| of every f32.
inline Tensor absolute(const Tensor& tensor) {
  Tensor result = tensor.clone();
  for (float& x : result.values<float>()) x = std::fabs(x);
  return result;
}

/// Extents sampled from those that break loops: zero, one, odd, near the length of a vector, larger
/// than a block of a transpose.
inline Shape random_shape(Generator& generator, int rank) {
  static constexpr int64_t kExtents[] = {0, 1, 1, 2, 3, 3, 4, 5, 7, 9, 18};
  Shape shape;
  for (int dim = 0; dim < rank; ++dim) shape.push_back(kExtents[random_int(generator, 0, 10)]);
  return shape;
}

inline void expect_same_bits(const Tensor& actual, const Tensor& expected,
                             const std::string& about) {
  ASSERT_EQ(actual.type(), expected.type()) << about;
  const auto bytes = static_cast<size_t>(byte_size(actual.type()).value());
  EXPECT_TRUE(bytes == 0 || std::memcmp(actual.data(), expected.data(), bytes) == 0) << about;
}

/// Expects that the fast kernel gives the bits of the reference, for kernels that move, compare or
/// count.
inline void expect_equals_reference(const LocalCall& call, const Tensors& inputs,
                                    const std::string& about) {
  const Tensors fast = run_fast(call, inputs), plain = run_plain(call, inputs);
  for (size_t i = 0; i < plain.size(); ++i) expect_same_bits(fast[i], plain[i], about);
}

/// |actual - expected| <= tolerance(i) for every element; NaN and infinity must agree.
inline void expect_near(const Tensor& actual, const Tensor& expected,
                        const std::function<double(size_t)>& tolerance, const std::string& about) {
  ASSERT_EQ(actual.type(), expected.type()) << about;
  const auto a = actual.values<float>(), e = expected.values<float>();
  for (size_t i = 0; i < e.size(); ++i) {
    if (std::isnan(e[i]) || std::isinf(e[i])) {
      ASSERT_TRUE(std::isnan(e[i]) ? std::isnan(a[i]) : a[i] == e[i])
          << about << " [" << i << "] " << a[i] << " for " << e[i];
    } else {
      ASSERT_LE(std::fabs(static_cast<double>(a[i]) - e[i]), tolerance(i))
          << about << " [" << i << "] " << a[i] << " for " << e[i];
    }
  }
}

/// The unit roundoff of f32.
inline constexpr double kRoundoff = 0x1p-24;

}  // namespace tessera::kernel_testing
