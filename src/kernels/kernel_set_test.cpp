#include "kernels/kernel_set.h"

#include "base/testing/error.h"
#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

Tensors one_tensor(std::vector<float> values) {
  Tensors tensors;
  tensors.push_back(Tensor::of<float>({static_cast<int64_t>(values.size())}, values));
  return tensors;
}

/// out = 2 x, element by element.
BoundKernel bind_twice(const LocalCall& call) {
  const int64_t count = element_count(call.outputs.at(0).shape);
  return {[count](const KernelBuffers& buffers) {
            const auto* x = reinterpret_cast<const float*>(buffers.inputs[0]);
            auto* out = reinterpret_cast<float*>(buffers.outputs[0]);
            for (int64_t i = 0; i < count; ++i) out[i] = 2 * x[i];
          },
          Bytes(0)};
}

std::string refusal(const std::vector<NamedKernel>& kernels) {
  return error_testing::message_of(ExitCode::kBadData, [&] { KernelSet{kernels}; });
}

TEST(KernelSet, IsAskedBeforeTheBuiltInKernels) {
  const KernelSet own({{"twice", bind_twice, true}});
  const LocalCall call{"twice", {}, {}, "", {{DType::kF32, {3}}}, {{DType::kF32, {3}}}};
  const Tensors out = run_bound(bind_kernel(call, &own), call, one_tensor({1, -2, 0.5}));
  expect_same_bits(out[0], Tensor::of<float>({3}, {2, -4, 1}), "twice");
  EXPECT_TRUE(runs_in_place("twice", &own));
  EXPECT_THROW(bind_kernel(call), InternalError);
}

TEST(KernelSet, AKernelThatTheProgramForgotIsItsMistake) {
  const KernelSet own({{"my.twice", bind_twice}}), none({});
  const auto call = [](const std::string& kernel) {
    return LocalCall{kernel, {}, {}, "", {{DType::kF32, {3}}}, {{DType::kF32, {3}}}};
  };
  const std::string why =
      "\n  why: an operator of the program calls it; the kernels of the program ";
  for (const auto& act : std::vector<std::function<void()>>{
           [&] { bind_kernel(call("my.twise"), &own); }, [&] { work_of(call("my.twise"), &own); },
           [&] { workspace_of(call("my.twise"), &own); }, [&] { runs_in_place("my.twise", &own); }})
    EXPECT_EQ(
        error_testing::message_of(ExitCode::kBadData, act),
        "no kernel is called 'my.twise'" + why + "are: my.twice\n  fix: did you mean 'my.twice'?");
  EXPECT_EQ(
      error_testing::message_of(ExitCode::kBadData, [&] { bind_kernel(call("unary.tahn"), &own); }),
      "no kernel is called 'unary.tahn'" + why +
          "are: my.twice\n  fix: did you mean 'unary.tanh'?");
  EXPECT_EQ(
      error_testing::message_of(ExitCode::kBadData, [&] { bind_kernel(call("mish"), &none); }),
      "no kernel is called 'mish'" + why +
          "are: none\n  fix: add NamedKernel{\"mish\", ...} to its OperatorSet");
}

TEST(KernelSet, LeavesTheBuiltInKernelsWhatTheyAre) {
  const KernelSet own({{"twice", bind_twice}});
  const LocalCall call{"unary.neg", {}, {}, "", {{DType::kF32, {2}}}, {{DType::kF32, {2}}}};
  const Tensors out = run_bound(bind_kernel(call, &own), call, one_tensor({1, -2}));
  expect_same_bits(out[0], Tensor::of<float>({2}, {-1, 2}), "neg");
  EXPECT_FALSE(runs_in_place("twice", &own));
  EXPECT_TRUE(runs_in_place("unary.neg", &own));
  EXPECT_FALSE(runs_in_place("transpose", &own));
}

TEST(KernelSet, RefusesTheNameOfABuiltInKernel) {
  EXPECT_EQ(refusal({{"copy", bind_twice}}),
            "kernel 'copy' is built in\n"
            "  why: a call must mean the same in every program\n"
            "  fix: give yours another name, such as 'my.copy'");
}

TEST(KernelSet, RefusesANameThatOccursTwice) {
  EXPECT_EQ(refusal({{"twice", bind_twice}, {"twice", bind_twice}}),
            "kernel 'twice' occurs twice\n"
            "  why: calls find kernels by name\n"
            "  fix: rename or remove one of them");
}

TEST(KernelSet, RefusesAKernelWithoutABinderOrWithoutAName) {
  EXPECT_EQ(refusal({{"twice", nullptr}}),
            "kernel 'twice' has no binder\n"
            "  why: the binder makes what runs\n"
            "  fix: set NamedKernel::bind");
  EXPECT_EQ(refusal({{"", bind_twice}}),
            "a kernel of the program has no name\n"
            "  why: calls find kernels by name\n"
            "  fix: set NamedKernel::name");
}

}  // namespace
}  // namespace tessera
