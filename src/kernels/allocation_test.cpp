// Running a bound kernel allocates nothing: the allocator of this test program counts. Allocations
// of the convolution library for its own bookkeeping are not ours and are not counted.
#include "base/testing/allocation.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/testing/tensor_types.h"
#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace {

std::atomic<int64_t> allocations{0};

bool is_of_a_kernel_library(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libdnnl") != nullptr;
}
}  // namespace

void tessera::allocation_testing::on_allocation(const void* caller) {
  if (!is_of_a_kernel_library(caller)) ++allocations;
}

namespace tessera {
namespace {

using namespace kernel_testing;

std::vector<LocalCall> calls_of_rows_and_indices() {
  const TensorType ids{DType::kI32, {9}}, step{DType::kI32, {}};
  return {
      {"unary.tanh", {}, {}, "", {f32({37})}, {f32({37})}},
      {"binary.add", {}, {}, "", {f32({37}), f32({37})}, {f32({37})}},
      {"scalar.pow", {}, {3.0}, "", {f32({37})}, {f32({37})}},
      {"transpose", {2, 0, 1}, {}, "", {f32({3, 40, 50})}, {f32({50, 3, 40})}},
      {"pad", {1, 2}, {0.0}, "", {f32({3, 4})}, {f32({6, 7})}},
      {"concat", {1}, {}, "", {f32({3, 4}), f32({3, 5})}, {f32({3, 9})}},
      {"take_chunk", {0, 2, 1}, {}, "", {f32({12, 5})}, {f32({4, 5})}},
      {"join_chunks", {0, 2}, {}, "", {f32({4, 5}), f32({6, 5})}, {f32({10, 5})}},
      {"reduce.sum", {0}, {}, "", {f32({300, 20})}, {f32({20})}},
      {"reduce.max", {0, 2}, {}, "", {f32({30, 5, 20})}, {f32({5})}},
      {"gather", {0}, {}, "", {f32({4, 5}), ids}, {f32({9, 5})}},
      {"scatter_add", {0}, {}, "", {ids, f32({9, 5})}, {f32({4, 5})}},
      {"take_along_dim", {0, 0}, {}, "", {f32({4, 5}), {DType::kI32, {2, 5}}}, {f32({2, 5})}},
      {"scatter_nd", {0}, {}, "", {f32({4, 5}), {DType::kI32, {2, 1}}, f32({2, 5})}, {f32({4, 5})}},
      {"argmax", {0}, {}, "", {f32({40, 5})}, {{DType::kI32, {5}}}},
      {"sort", {0, 1}, {}, "", {f32({40, 5})}, {f32({40, 5}), {DType::kI32, {40, 5}}}},
      {"sort", {0, 1}, {}, "", {f32({40, 5})}, {f32({3, 5}), {DType::kI32, {3, 5}}}},
      {"cumsum", {0, 0, 1}, {}, "", {f32({40, 5})}, {f32({40, 5})}},
      {"grouped_matmul", {1, 0, 0}, {}, "", {f32({9, 5}), f32({9, 6, 5}), ids}, {f32({9, 6})}},
      {"dynamic_slice", {1, 0, 0}, {}, "", {f32({4, 5}), step}, {f32({4, 2})}},
      {"dynamic_update", {1, 0}, {}, "", {f32({4, 5}), f32({4, 2}), step}, {f32({4, 5})}},
      {"random_uniform", {7, 1, 2, 9, 9}, {}, "", {step}, {f32({3, 4})}}};
}

std::vector<LocalCall> calls_of_products_and_windows() {
  const TensorType q = f32({1, 70, 2, 8}), lse = f32({1, 2, 70});
  return {
      {"dot_general",
       {},
       {},
       "bhsd,hde->bse",
       {f32({2, 3, 4, 5}), f32({3, 5, 6})},
       {f32({2, 4, 6})}},
      {"attention", {1, 0}, {0.5}, "", {q, q, q}, {q, lse}},
      {"convolution",
       {3, 1, 1, 1, 9, 0, 0},
       {},
       "",
       {f32({2, 20, 9}), f32({18, 20, 3})},
       {f32({2, 18, 9})}},
      {"convolution_grad_input",
       {3, 1, 1, 1, 9, 0, 0},
       {},
       "",
       {f32({2, 18, 9}), f32({18, 20, 3})},
       {f32({2, 20, 9})}},
      {"convolution_grad_weight",
       {3, 1, 1, 1, 9, 0, 0},
       {},
       "",
       {f32({2, 20, 9}), f32({2, 18, 9})},
       {f32({18, 20, 3})}},
      {"max_pool", {2, 2, 1, 0, 6, 0, 0}, {}, "", {f32({2, 3, 6})}, {f32({2, 3, 3})}},
      {"max_pool_grad",
       {2, 2, 1, 0, 6, 0, 0, 0},
       {},
       "",
       {f32({2, 3, 6}), f32({2, 3, 3})},
       {f32({2, 3, 6})}},
      {"average_pool_grad", {2, 2, 1, 0, 6, 0, 0, 1}, {}, "", {f32({2, 3, 3})}, {f32({2, 3, 6})}},
      {"resize", {6, 9, 0, 0}, {}, "linear half_pixel", {f32({2, 3, 6})}, {f32({2, 3, 9})}},
      {"attention_grad", {1, 0}, {0.5}, "", {q, q, q, q, lse, q}, {q, q, q}}};
}

std::vector<LocalCall> one_call_of_each_family() {
  std::vector<LocalCall> calls = calls_of_rows_and_indices();
  for (LocalCall& call : calls_of_products_and_windows()) calls.push_back(std::move(call));
  return calls;
}

// A bound call with its operands, ready to be run again and again.
struct Bound {
  explicit Bound(const LocalCall& call) : kernel(bind_kernel(call)), workspace(kernel.workspace) {
    Generator generator(1);
    for (const TensorType& type : call.inputs) inputs.push_back(random_tensor(generator, type));
    for (const TensorType& type : call.outputs) outputs.emplace_back(type);
    for (const Tensor& tensor : inputs) input_data.push_back(tensor.data());
    for (Tensor& tensor : outputs) output_data.push_back(tensor.data());
  }
  void run() { kernel.run({input_data, output_data, workspace.data()}); }

  BoundKernel kernel;
  AlignedBuffer workspace;
  Tensors inputs, outputs;
  std::vector<const std::byte*> input_data;
  std::vector<std::byte*> output_data;
};

TEST(Kernels, RunningAllocatesNothing) {
  use_one_thread_for_kernels();
  for (const LocalCall& call : one_call_of_each_family()) {
    Bound bound(call);
    bound.run();  // the matrix library prepares its code on the first call of a shape
    const int64_t before = allocations;
    bound.run();
    EXPECT_EQ(allocations - before, 0) << call.kernel;
  }
}

TEST(Kernels, TwoThreadsRunTheSameCallToTheSameBits) {
  for (const LocalCall& call : one_call_of_each_family()) {
    Bound first(call), second(call);
    std::thread other([&second] {
      use_one_thread_for_kernels();
      second.run();
    });
    use_one_thread_for_kernels();
    first.run();
    other.join();
    for (size_t i = 0; i < first.outputs.size(); ++i)
      expect_same_bits(first.outputs[i], second.outputs[i], call.kernel);
  }
}

}  // namespace
}  // namespace tessera
