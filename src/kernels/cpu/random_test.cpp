#include "base/random.h"

#include <algorithm>

#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

constexpr int64_t kKey = -6917529027641081856;  // as a uint64, above 2^63

LocalCall uniform_call(const Shape& local, const Dims& begin, const Shape& whole) {
  LocalCall call{"random_uniform", {kKey}, {}, "", {{DType::kI32, {}}}, {{DType::kF32, local}}};
  call.ints.insert(call.ints.end(), begin.begin(), begin.end());
  call.ints.insert(call.ints.end(), whole.begin(), whole.end());
  return call;
}

Tensors at_step(int32_t step) {
  Tensors inputs;
  inputs.push_back(Tensor::scalar<int32_t>(step));
  return inputs;
}

TEST(RandomKernels, ElementIOfTheWholeIsNumberIOfTheStream) {
  const Tensors out = run_fast(uniform_call({2, 5}, {0, 0}, {2, 5}), at_step(7));
  const RandomStream stream(static_cast<uint64_t>(kKey), 7);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(out[0].values<float>()[i], stream.uniform(i)) << i;
}

TEST(RandomKernels, AnyPartIsThatPartOfTheWhole) {
  Generator generator(1);
  for (int round = 0; round < 200; ++round) {
    const int rank = static_cast<int>(random_int(generator, 0, 4));
    const Shape whole = random_shape(generator, rank);
    Dims begin;
    Shape local;
    for (int dim = 0; dim < rank; ++dim) {
      const bool held_whole = random_int(generator, 0, 1) == 0;
      begin.push_back(held_whole ? 0 : random_int(generator, 0, whole[dim]));
      local.push_back(held_whole ? whole[dim] : random_int(generator, 0, whole[dim] - begin[dim]));
    }
    expect_equals_reference(uniform_call(local, begin, whole), at_step(round),
                            to_text(local) + " of " + to_text(whole));
  }
}

TEST(RandomKernels, RowsOfASplitTensorAreTheRowsOfTheSerialOne) {
  const Tensors whole = run_fast(uniform_call({7, 6}, {0, 0}, {7, 6}), at_step(3));
  const Tensors part = run_fast(uniform_call({3, 6}, {2, 0}, {7, 6}), at_step(3));
  expect_same_bits(
      part[0], Tensor::of<float>({3, 6}, std::as_const(whole[0]).values<float>().subspan(12, 18)),
      "rows 2 to 4");
}

TEST(RandomKernels, StepsDrawDifferentNumbers) {
  const Tensors first = run_fast(uniform_call({50}, {0}, {50}), at_step(1)),
                second = run_fast(uniform_call({50}, {0}, {50}), at_step(2));
  const auto a = first[0].values<float>(), b = second[0].values<float>();
  EXPECT_FALSE(std::equal(a.begin(), a.end(), b.begin()));
}

TEST(RandomKernels, APartOutsideTheWholeIsRefusedWhenTheCallIsBound) {
  EXPECT_THROW(bind_kernel(uniform_call({3}, {2}, {4})), InternalError);
}

}  // namespace
}  // namespace tessera
