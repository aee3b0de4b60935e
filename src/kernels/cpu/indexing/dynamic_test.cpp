#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

constexpr TensorType kStart{DType::kI32, {}};

Tensor start_at(int64_t value) {
  return Tensor::of<int32_t>({}, {static_cast<int32_t>(value)});
}

/// A tensor, a window of it, and the dims in which the window moves.
struct RandomWindow {
  Shape tensor, window;
  std::vector<int64_t> dims;
};

RandomWindow random_window(Generator& generator) {
  RandomWindow drawn;
  drawn.tensor = drawn.window =
      random_shape(generator, static_cast<int>(random_int(generator, 0, 4)));
  for (int dim = 0; dim < drawn.tensor.size(); ++dim) {
    if (random_int(generator, 0, 1) == 0) continue;
    drawn.dims.push_back(dim);
    // A part may be smaller than its window.
    drawn.window[dim] = random_int(generator, 0, drawn.tensor[dim] + 2);
  }
  return drawn;
}

TEST(DynamicKernels, SliceEqualsTheReferenceForEveryElementType) {
  Generator generator(1);
  for (DType dtype : {DType::kF32, DType::kI32, DType::kBool})
    for (int round = 0; round < 200; ++round) {
      const RandomWindow drawn = random_window(generator);
      Tensors inputs;
      inputs.push_back(random_tensor(generator, {dtype, drawn.tensor}));
      LocalCall call{"dynamic_slice", {}, {}, "", {}, {{dtype, drawn.window}}};
      for (int64_t dim : drawn.dims) {
        const int64_t begin = random_int(generator, 0, 4), out_begin = random_int(generator, 0, 4);
        call.ints.insert(call.ints.end(), {dim, begin, out_begin});
        inputs.push_back(start_at(begin + random_int(generator, -4, 20)));
      }
      call.inputs = types_of(inputs);
      expect_equals_reference(call, inputs,
                              to_text(call.inputs[0]) + " " + to_text(call.outputs[0]));
    }
}

TEST(DynamicKernels, UpdateEqualsTheReferenceForEveryElementType) {
  Generator generator(2);
  for (DType dtype : {DType::kF32, DType::kI32, DType::kBool})
    for (int round = 0; round < 200; ++round) {
      const RandomWindow drawn = random_window(generator);
      const TensorType type{dtype, drawn.tensor};
      Tensors inputs;
      inputs.push_back(random_tensor(generator, type));
      inputs.push_back(random_tensor(generator, {dtype, drawn.window}));
      LocalCall call{"dynamic_update", {}, {}, "", {}, {type}};
      for (int64_t dim : drawn.dims) {
        const int64_t begin = random_int(generator, 0, 4);
        call.ints.insert(call.ints.end(), {dim, begin});
        inputs.push_back(start_at(begin + random_int(generator, -8, 20)));
      }
      call.inputs = types_of(inputs);
      expect_equals_reference(call, inputs,
                              to_text(call.inputs[0]) + " " + to_text(call.inputs[1]));
    }
}

TEST(DynamicKernels, AStartFarOutsideNeitherReadsNorWrites) {
  for (int32_t start : {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    Tensors inputs;
    inputs.push_back(Tensor::of<float>({3}, {1, 2, 3}));
    inputs.push_back(start_at(start));
    const Tensors slice = run_fast(
        {"dynamic_slice", {0, 0, 0}, {}, "", types_of(inputs), {{DType::kF32, {2}}}}, inputs);
    expect_same_bits(slice[0], Tensor::of<float>({2}, {0, 0}), std::to_string(start));
  }
}

TEST(DynamicKernels, AnUpdateInPlaceLeavesTheRestAlone) {
  Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor update = Tensor::of<float>({2, 1}, {7, 8}), start = start_at(1);
  const BoundKernel kernel = bind_kernel(
      {"dynamic_update", {1, 0}, {}, "", {x.type(), update.type(), kStart}, {x.type()}});
  const std::byte* inputs[] = {x.data(), update.data(), start.data()};
  std::byte* outputs[] = {x.data()};
  kernel.run({inputs, outputs, nullptr});
  expect_same_bits(x, Tensor::of<float>({2, 3}, {1, 7, 3, 4, 8, 6}), "column 1");
}

}  // namespace
}  // namespace tessera
