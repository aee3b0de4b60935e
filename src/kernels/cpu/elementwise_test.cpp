#include <hwy/targets.h>

#include <cmath>
#include <limits>

#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

constexpr int64_t kSizes[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100};

const std::vector<float> kSpecial = {
    0.0f,       -0.0f, 1.0f,   -1.0f,   0.5f,     -0.5f,  2.0f,  -2.5f,  3.7f,   -3.7f,   kInfinity,
    -kInfinity, kNaN,  1e-40f, -1e-40f, 1.2e-38f, 1e-20f, 1e-8f, -1e-8f, 1e-3f,  0.9277f, 0.9278f,
    -0.9278f,   4.0f,  3.99f,  10.0f,   -20.0f,   88.5f,  89.0f, 103.0f, 105.0f, -87.0f,  -88.0f,
    -104.5f,    1e4f,  -1e4f,  1e30f,   -1e30f,   3e38f,  20.0f, 18.8f,  9.1f,   -9.1f,   0.3466f};

Tensor of_floats(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, std::span<const float>(values));
}

LocalCall same_type_call(const std::string& kernel, const Tensors& inputs,
                         std::vector<double> reals = {}) {
  return {kernel, {}, std::move(reals), "", types_of(inputs), {inputs[0].type()}};
}

// Expects an error of at most `ulps` roundings of the result. Below the smallest normal number the
// error is absolute.
void expect_within_ulps(const LocalCall& call, const Tensors& inputs, double ulps,
                        const std::string& about) {
  const Tensors fast = run_fast(call, inputs), plain = run_plain(call, inputs);
  const auto expected = plain[0].values<float>();
  const auto tolerance = [&](size_t i) {
    return ulps * std::fmax(2 * kRoundoff * std::fabs(static_cast<double>(expected[i])), 0x1p-149);
  };
  expect_near(fast[0], plain[0], tolerance, about);
}

struct UnaryCase {
  std::string op;
  double ulps;  // 0.5 is rounded correctly
};

// Highway specifies 1 ulp for exp and 4 for log and tanh; the polynomials of erf are within 1; the
// quotient in logistic adds 2.
const std::vector<UnaryCase> kUnaryCases = {
    {"neg", 0},      {"abs", 0},      {"exp", 2},  {"log", 4},   {"sqrt", 0.5}, {"rsqrt", 1.5},
    {"tanh", 4},     {"logistic", 4}, {"erf", 2},  {"sin", 1},   {"cos", 1},    {"floor", 0},
    {"square", 0.5}, {"sign", 0},     {"ceil", 0}, {"round", 0}, {"log1p", 4},  {"expm1", 4}};

TEST(ElementwiseKernels, UnaryFunctionsAreWithinAFewUlpsOnOrdinaryNumbers) {
  Generator generator(1);
  for (const UnaryCase& test : kUnaryCases)
    for (int64_t size : kSizes) {
      Tensors inputs;
      inputs.push_back(random_tensor(generator, {DType::kF32, {size}}));
      expect_within_ulps(same_type_call("unary." + test.op, inputs), inputs, test.ulps + 0.01,
                         test.op);
    }
}

TEST(ElementwiseKernels, UnaryFunctionsAreRightAtInfinityNaNZeroAndTheEdgesOfTheirRanges) {
  for (const UnaryCase& test : kUnaryCases) {
    if (test.op == "logistic") continue;  // below
    Tensors inputs;
    inputs.push_back(of_floats(kSpecial));
    expect_within_ulps(same_type_call("unary." + test.op, inputs), inputs, test.ulps + 0.01,
                       test.op);
  }
}

TEST(ElementwiseKernels, UnaryFunctionsAreWithinAFewUlpsFromEndToEndOfTheirRanges) {
  std::vector<float> sweep;
  for (int i = -20000; i <= 20000; ++i)
    sweep.push_back(static_cast<float>(i) * 0.005123f);  // -102 to 102
  for (const UnaryCase& test : kUnaryCases) {
    Tensors inputs;
    inputs.push_back(of_floats(sweep));
    if (test.op != "logistic")
      expect_within_ulps(same_type_call("unary." + test.op, inputs), inputs, test.ulps + 0.01,
                         test.op);
  }
}

TEST(ElementwiseKernels, UnaryFunctionsAreAsGoodWithoutTheVectorsOfThisMachine) {
  for (const UnaryCase& test : kUnaryCases) {
    if (test.op == "logistic") continue;
    Tensors inputs;
    inputs.push_back(of_floats(kSpecial));
    hwy::DisableTargets(HWY_AVX3 | HWY_AVX2);
    // Without fused multiply-add a polynomial rounds about twice as often.
    expect_within_ulps(same_type_call("unary." + test.op, inputs), inputs, 2 * test.ulps + 0.01,
                       test.op);
    hwy::DisableTargets(0);
  }
}

TEST(ElementwiseKernels, LogisticIsZeroWhereTheExponentialOfMinusXOverflows) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({6}, {-kInfinity, -200.0f, 0.0f, 200.0f, kInfinity, kNaN}));
  const Tensors outputs = run_fast(same_type_call("unary.logistic", inputs), inputs);
  const auto out = outputs[0].values<float>();
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 0.5f);
  EXPECT_EQ(out[3], 1.0f);
  EXPECT_EQ(out[4], 1.0f);
  EXPECT_TRUE(std::isnan(out[5]));
}

TEST(ElementwiseKernels, AnElementHasTheSameBitsWhereverItStandsInTheBuffer) {
  Generator generator(2);
  const Tensor whole = random_tensor(generator, {DType::kF32, {203}});
  const Tensor other = random_tensor(generator, {DType::kF32, {203}});
  std::vector<LocalCall> calls;
  for (const UnaryCase& test : kUnaryCases)
    calls.push_back({"unary." + test.op, {}, {}, "", {whole.type()}, {whole.type()}});
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "pow"})
    calls.push_back(
        {std::string("binary.") + op, {}, {}, "", {whole.type(), whole.type()}, {whole.type()}});
  for (const char* op : {"add", "mul", "max", "min", "pow"})
    calls.push_back({std::string("scalar.") + op, {}, {3.0}, "", {whole.type()}, {whole.type()}});
  for (const LocalCall& call : calls) {
    Tensors inputs;
    inputs.push_back(whole.clone());
    if (call.inputs.size() == 2) inputs.push_back(other.clone());
    const Tensors expected = run_fast(call, inputs);
    for (const auto& [begin, size] : std::vector<std::pair<size_t, size_t>>{
             {0, 1}, {1, 7}, {3, 16}, {5, 33}, {202, 1}, {100, 103}}) {
      const TensorType part_type{DType::kF32, {static_cast<int64_t>(size)}};
      LocalCall part{
          call.kernel, {}, call.reals, "", std::vector<TensorType>(call.inputs.size(), part_type),
          {part_type}};
      Tensors part_inputs;
      for (const Tensor& tensor : inputs)
        part_inputs.push_back(
            Tensor::of<float>(part_type.shape, tensor.values<float>().subspan(begin, size)));
      expect_same_bits(
          run_fast(part, part_inputs)[0],
          Tensor::of<float>(part_type.shape,
                            std::as_const(expected[0]).values<float>().subspan(begin, size)),
          call.kernel);
    }
  }
}

TEST(ElementwiseKernels, BinaryOperationsEqualTheReference) {
  Generator generator(3);
  const std::vector<std::pair<DType, std::vector<std::string>>> operations = {
      {DType::kF32, {"add", "sub", "mul", "div", "max", "min"}},
      {DType::kI32,
       {"add", "sub", "mul", "max", "min", "floordiv", "mod", "and", "or", "xor", "shift_left",
        "shift_right"}},
      {DType::kBool, {"and", "or", "xor"}}};
  for (const auto& [dtype, names] : operations)
    for (const std::string& name : names)
      for (int64_t size : kSizes) {
        Tensors inputs;
        inputs.push_back(random_tensor(generator, {dtype, {size}}));
        inputs.push_back(random_tensor(generator, {dtype, {size}}));
        // Add, subtract, multiply, divide of two f32 in double, rounded once more to f32, are the
        // correctly rounded f32 results.
        expect_equals_reference(same_type_call("binary." + name, inputs), inputs, name);
      }
}

TEST(ElementwiseKernels, OperationsOfOneIntegerEqualTheReference) {
  Generator generator(7);
  for (const char* kernel : {"unary.neg", "unary.abs", "unary.square", "unary.sign", "not"})
    for (int64_t size : kSizes) {
      Tensors inputs;
      inputs.push_back(random_tensor(generator, {DType::kI32, {size}}));
      expect_equals_reference(same_type_call(kernel, inputs), inputs, kernel);
    }
}

TEST(ElementwiseKernels, AShiftByNoIndexOfABitMovesAllBitsOut) {
  Tensors inputs;
  inputs.push_back(Tensor::of<int32_t>({6}, {5, -5, 5, -5, 3, -8}));
  inputs.push_back(Tensor::of<int32_t>({6}, {32, 32, -1, -1, 31, 1}));
  // 3 * 2^31 leaves the lowest bit of 3 as the sign.
  expect_same_bits(run_fast(same_type_call("binary.shift_left", inputs), inputs)[0],
                   Tensor::of<int32_t>({6}, {0, 0, 0, 0, std::numeric_limits<int32_t>::min(), -16}),
                   "left");
  expect_same_bits(run_fast(same_type_call("binary.shift_right", inputs), inputs)[0],
                   Tensor::of<int32_t>({6}, {0, -1, 0, -1, 0, -4}), "right");
}

TEST(ElementwiseKernels, MaxAndMinOfANaNAreNaN) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({4}, {kNaN, 1.0f, kNaN, 2.0f}));
  inputs.push_back(Tensor::of<float>({4}, {1.0f, kNaN, kNaN, 3.0f}));
  for (const char* kernel : {"binary.max", "binary.min"}) {
    const Tensors outputs = run_fast(same_type_call(kernel, inputs), inputs);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(std::isnan(outputs[0].values<float>()[i])) << kernel << i;
    EXPECT_FALSE(std::isnan(outputs[0].values<float>()[3])) << kernel;
  }
}

TEST(ElementwiseKernels, PowIsWithinAnUlp) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({6}, {2.0f, 3.0f, 0.5f, 10.0f, -2.0f, -2.0f}));
  inputs.push_back(Tensor::of<float>({6}, {0.5f, -2.0f, 3.0f, 1.5f, 3.0f, 0.5f}));
  expect_within_ulps(same_type_call("binary.pow", inputs), inputs, 1.0, "binary.pow");
}

TEST(ElementwiseKernels, FloorDivisionAndModuloRoundTowardMinusInfinity) {
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  Tensors inputs;
  inputs.push_back(Tensor::of<int32_t>({7}, {7, -7, 7, -7, 6, 5, kLowest}));
  inputs.push_back(Tensor::of<int32_t>({7}, {2, 2, -2, -2, -3, 0, -1}));
  const Tensors quotients = run_fast(same_type_call("binary.floordiv", inputs), inputs);
  const Tensors remainders = run_fast(same_type_call("binary.mod", inputs), inputs);
  const auto q = quotients[0].values<int32_t>();
  const auto r = remainders[0].values<int32_t>();
  // 7 = 3*2 + 1, -7 = -4*2 + 1, 7 = -4*-2 - 1, -7 = 3*-2 - 1; a division by zero gives 0; the
  // smallest number over -1 wraps.
  EXPECT_EQ(std::vector<int32_t>(q.begin(), q.end()),
            (std::vector<int32_t>{3, -4, -4, 3, -2, 0, kLowest}));
  EXPECT_EQ(std::vector<int32_t>(r.begin(), r.end()),
            (std::vector<int32_t>{1, 1, -1, -1, 0, 0, 0}));
}

TEST(ElementwiseKernels, IntegersWrap) {
  Tensors inputs;
  inputs.push_back(Tensor::of<int32_t>({2}, {2147483647, 65536}));
  inputs.push_back(Tensor::of<int32_t>({2}, {1, 65537}));
  EXPECT_EQ(run_fast(same_type_call("binary.add", inputs), inputs)[0].values<int32_t>()[0],
            std::numeric_limits<int32_t>::min());
  // 65536 * 65537 = 2^32 + 65536
  EXPECT_EQ(run_fast(same_type_call("binary.mul", inputs), inputs)[0].values<int32_t>()[1], 65536);
}

TEST(ElementwiseKernels, ScalarOperationsEqualTheReference) {
  Generator generator(4);
  for (const char* op : {"add", "mul", "max", "min", "pow"})
    for (double c : {2.0, 0.1, -1.5})
      for (int64_t size : kSizes) {
        Tensors inputs;
        inputs.push_back(random_tensor(generator, {DType::kF32, {size}}));
        // One rounding, and one more inside pow.
        expect_within_ulps(same_type_call(std::string("scalar.") + op, inputs, {c}), inputs, 1.0,
                           op);
      }
}

TEST(ElementwiseKernels, ComparisonsEqualTheReferenceAlsoForNaN) {
  Generator generator(5);
  for (const char* relation : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (DType dtype : {DType::kF32, DType::kI32})
      for (int64_t size : kSizes) {
        Tensors inputs;
        inputs.push_back(random_tensor(generator, {dtype, {size}}));
        inputs.push_back(random_tensor(generator, {dtype, {size}}));
        if (size > 2 && dtype == DType::kF32)
          inputs[0].values<float>()[1] = inputs[1].values<float>()[2] = kNaN;
        if (size > 3) std::memcpy(inputs[0].data(), inputs[1].data(), 4);  // one pair that is equal
        LocalCall call{std::string("compare.") + relation,
                       {},
                       {},
                       "",
                       types_of(inputs),
                       {{DType::kBool, {size}}}};
        expect_equals_reference(call, inputs, relation);
      }
}

TEST(ElementwiseKernels, NotSelectAndCastEqualTheReference) {
  Generator generator(6);
  for (int64_t size : kSizes) {
    const Shape shape{size};
    for (DType dtype : kTypes) {
      Tensors choice;
      choice.push_back(random_tensor(generator, {DType::kBool, shape}));
      choice.push_back(random_tensor(generator, {dtype, shape}));
      choice.push_back(random_tensor(generator, {dtype, shape}));
      expect_equals_reference({"select", {}, {}, "", types_of(choice), {{dtype, shape}}}, choice,
                              "select");
      for (DType to : kTypes) {
        Tensors value;
        value.push_back(random_tensor(generator, {dtype, shape}));
        expect_equals_reference({"cast", {}, {}, "", types_of(value), {{to, shape}}}, value,
                                "cast");
      }
    }
    Tensors truth;
    truth.push_back(random_tensor(generator, {DType::kBool, shape}));
    expect_equals_reference(same_type_call("not", truth), truth, "not");
  }
}

TEST(ElementwiseKernels, CastToIntegerRoundsTowardZeroAndSaturates) {
  Tensors inputs;
  inputs.push_back(
      Tensor::of<float>({7}, {1.9f, -1.9f, 3e9f, -3e9f, kNaN, kInfinity, -2147483648.0f}));
  const Tensors outputs =
      run_fast({"cast", {}, {}, "", types_of(inputs), {{DType::kI32, {7}}}}, inputs);
  const auto out = outputs[0].values<int32_t>();
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min(),
                    kHighest = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(std::vector<int32_t>(out.begin(), out.end()),
            (std::vector<int32_t>{1, -1, kHighest, kLowest, 0, kHighest, kLowest}));
}

// Runs with output 0 in the memory of input `shared`.
Tensor run_in_place(const LocalCall& call, const Tensors& inputs, size_t shared) {
  Tensors copies;
  std::vector<const std::byte*> input_data;
  for (const Tensor& tensor : inputs) copies.push_back(tensor.clone());
  for (const Tensor& tensor : copies) input_data.push_back(tensor.data());
  std::vector<std::byte*> output_data{copies[shared].data()};
  bind_kernel(call).run({input_data, output_data, nullptr});
  Tensor result(call.outputs[0]);
  std::memcpy(result.data(), copies[shared].data(),
              static_cast<size_t>(byte_size(result.type()).value()));
  return result;
}

TEST(ElementwiseKernels, WhatRunsInPlaceGivesTheSameBitsInTheMemoryOfAnInput) {
  Generator generator(7);
  const TensorType f32{DType::kF32, {37}}, i32{DType::kI32, {37}}, boolean{DType::kBool, {37}};
  const std::vector<LocalCall> calls = {
      {"unary.exp", {}, {}, "", {f32}, {f32}},
      {"unary.erf", {}, {}, "", {f32}, {f32}},
      {"unary.sin", {}, {}, "", {f32}, {f32}},
      {"binary.sub", {}, {}, "", {f32, f32}, {f32}},
      {"binary.pow", {}, {}, "", {f32, f32}, {f32}},
      {"binary.mod", {}, {}, "", {i32, i32}, {i32}},
      {"binary.xor", {}, {}, "", {boolean, boolean}, {boolean}},
      {"scalar.mul", {}, {3.0}, "", {f32}, {f32}},
      {"not", {}, {}, "", {boolean}, {boolean}},
      {"select", {}, {}, "", {boolean, f32, f32}, {f32}},
      {"select", {}, {}, "", {boolean, boolean, boolean}, {boolean}},
      {"cast", {}, {}, "", {f32}, {f32}},
      {"cast", {}, {}, "", {f32}, {i32}},
      {"copy", {}, {}, "", {i32}, {i32}}};
  for (const LocalCall& call : calls) {
    ASSERT_TRUE(runs_in_place(call.kernel)) << call.kernel;
    Tensors inputs;
    for (const TensorType& type : call.inputs) inputs.push_back(random_tensor(generator, type));
    for (size_t shared = 0; shared < inputs.size(); ++shared)
      if (size_of(inputs[shared].dtype()) == size_of(call.outputs[0].dtype))
        expect_same_bits(run_in_place(call, inputs, shared), run_fast(call, inputs)[0],
                         call.kernel);
  }
}

}  // namespace
}  // namespace tessera
