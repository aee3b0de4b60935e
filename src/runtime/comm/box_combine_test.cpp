#include "runtime/comm/box_combine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/error.h"
#include "base/random.h"

namespace tessera {
namespace {

/// Uniform numbers in [-1, 1).
Tensor random_tensor(const std::string& name, const TensorType& type) {
  Tensor tensor(type);
  RandomStream random(random_key(1, name), 0);
  uint64_t at = 0;
  for (float& value : tensor.values<float>()) value = 2 * random.uniform(at++) - 1;
  return tensor;
}

template <typename T>
std::vector<T> list(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

/// Copies the first `row` elements of each row of [3, 4, 2, 40] into the end of rows of 41.
template <typename T>
void expect_copied_rows(DType dtype, int64_t row) {
  const Box source_holds{{{0, 3}, {0, 4}, {0, 2}, {0, 40}}},
      box{{{1, 3}, {0, 3}, {0, 2}, {0, row}}},
      target_holds{{{1, 3}, {0, 3}, {0, 2}, {row - 41, row}}};
  Tensor source({dtype, {3, 4, 2, 40}}), target({dtype, {2, 3, 2, 41}});
  auto from = source.values<T>();
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(1 + i % 250);
  BoxCombine copy(dtype, ReduceOp::kSum, box, target_holds);
  copy.add_source(0, source_holds);
  copy.join_dims();
  copy.run(target.data(), std::array<const std::byte*, 1>{source.data()});
  std::vector<T> expected(2 * 3 * 2 * 41, 0);
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 2; ++c)
        for (int64_t i = 0; i < row; ++i)
          expected[((a * 3 + b) * 2 + c) * 41 + 41 - row + i] =
              from[(((a + 1) * 4 + b) * 2 + c) * 40 + i];
  EXPECT_EQ(list<T>(target), expected) << row;
}

TEST(BoxCombine, CopiesShortAndLongRows) {
  for (const int64_t row : {1, 3, 16, 17, 40}) {
    expect_copied_rows<float>(DType::kF32, row);
    expect_copied_rows<uint8_t>(DType::kBool, row);
  }
}

TEST(BoxCombine, CopiesABoxBetweenTensorsThatHoldOtherBoxes) {
  // The whole is [4, 5]. The source holds rows 1..3 of columns 0..5, the target rows 0..2 of
  // columns 2..5; they share row 1, columns 2..5.
  const Tensor source = Tensor::of<float>({2, 5}, {10, 11, 12, 13, 14, 20, 21, 22, 23, 24});
  Tensor target({DType::kF32, {2, 3}});
  const Box source_holds{{{1, 3}, {0, 5}}}, target_holds{{{0, 2}, {2, 5}}};
  BoxCombine copy(DType::kF32, ReduceOp::kSum, intersect(source_holds, target_holds), target_holds);
  copy.add_source(0, source_holds);
  copy.join_dims();
  copy.run(target.data(), std::array{source.data()});
  EXPECT_EQ(list<float>(target), (std::vector<float>{0, 0, 0, 12, 13, 14}));
}

TEST(BoxCombine, CopiesAColumnWithoutDenseRows) {
  const Tensor source = Tensor::of<uint8_t>({3, 2}, {1, 0, 0, 1, 1, 1});
  Tensor target({DType::kBool, {3, 1}});
  const Box column{{{0, 3}, {1, 2}}};
  BoxCombine copy(DType::kBool, ReduceOp::kSum, column, column);
  copy.add_source(0, whole_box({3, 2}));
  copy.join_dims();
  copy.run(target.data(), std::array{source.data()});
  EXPECT_EQ(list<uint8_t>(target), (std::vector<uint8_t>{0, 1, 1}));
}

TEST(BoxCombine, CopiesElementsOfEverySize) {
  const Box row{{{1, 2}, {0, 3}}};
  for (const DTypeTraits& type : kDTypes) {
    Tensor source({type.dtype, {2, 3}}), target({type.dtype, {3}});
    for (int64_t i = 0; i < 6 * type.size; ++i) source.data()[i] = std::byte(i);
    BoxCombine copy(type.dtype, ReduceOp::kSum, row, row);
    copy.add_source(0, whole_box({2, 3}));
    copy.join_dims();
    copy.run(target.data(), std::array<const std::byte*, 1>{source.data()});
    EXPECT_TRUE(
        std::equal(target.data(), target.data() + 3 * type.size, source.data() + 3 * type.size))
        << type.text;
  }
}

template <typename T>
std::vector<T> combined(ReduceOp reduce, std::initializer_list<T> a, std::initializer_list<T> b) {
  const Shape shape{static_cast<int64_t>(a.size())};
  const Tensor first = Tensor::of<T>(shape, a), second = Tensor::of<T>(shape, b);
  Tensor target({dtype_of<T>(), shape});
  BoxCombine combine(dtype_of<T>(), reduce, whole_box(shape), whole_box(shape));
  combine.add_source(0, whole_box(shape));
  combine.add_source(1, whole_box(shape));
  combine.join_dims();
  combine.run(target.data(), std::array{first.data(), second.data()});
  return list<T>(target);
}

TEST(BoxCombine, ReducesEveryTypeByItsReductions) {
  EXPECT_EQ(combined<float>(ReduceOp::kSum, {1, 2}, {0.5, -4}), (std::vector<float>{1.5, -2}));
  EXPECT_EQ(combined<float>(ReduceOp::kProd, {1, 2}, {0.5, -4}), (std::vector<float>{0.5, -8}));
  EXPECT_EQ(combined<float>(ReduceOp::kMax, {1, 2}, {0.5, 4}), (std::vector<float>{1, 4}));
  EXPECT_EQ(combined<float>(ReduceOp::kMin, {1, 2}, {0.5, 4}), (std::vector<float>{0.5, 2}));
  EXPECT_EQ(combined<int32_t>(ReduceOp::kSum, {1, 2}, {3, -4}), (std::vector<int32_t>{4, -2}));
  EXPECT_EQ(combined<int32_t>(ReduceOp::kProd, {1, 2}, {3, -4}), (std::vector<int32_t>{3, -8}));
  EXPECT_EQ(combined<int32_t>(ReduceOp::kMax, {1, 2}, {3, -4}), (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(combined<int32_t>(ReduceOp::kMin, {1, 2}, {3, -4}), (std::vector<int32_t>{1, -4}));
  EXPECT_EQ(combined<uint8_t>(ReduceOp::kAny, {0, 0, 1, 1}, {0, 1, 0, 1}),
            (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(combined<uint8_t>(ReduceOp::kAll, {0, 0, 1, 1}, {0, 1, 0, 1}),
            (std::vector<uint8_t>{0, 0, 0, 1}));
}

TEST(BoxCombine, AMaximumKeepsWhatIsNotANumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (ReduceOp reduce : {ReduceOp::kMax, ReduceOp::kMin}) {
    const auto values = combined<float>(reduce, {nan, 1}, {1, nan});
    EXPECT_TRUE(values[0] != values[0]);
    EXPECT_TRUE(values[1] != values[1]);
  }
}

TEST(BoxCombine, RefusesAReductionThatTheTypeDoesNotHave) {
  EXPECT_THROW(combined<uint8_t>(ReduceOp::kSum, {0}, {1}), InternalError);
  EXPECT_THROW(combined<float>(ReduceOp::kAny, {0}, {1}), InternalError);
}

TEST(BoxCombine, ATypeWithoutKernelsIsCopiedAndNotCombined) {
  const Box box = whole_box({2});
  for (const DTypeTraits& type : kDTypes) {
    if (type.dtype != DType::kF64 && type.dtype != DType::kI64 && type.dtype != DType::kI8 &&
        type.dtype != DType::kU8)
      continue;
    BoxCombine combine(type.dtype, ReduceOp::kSum, box, box);
    EXPECT_NO_THROW(combine.add_source(0, box)) << type.text;
    try {
      combine.add_source(1, box);
      ADD_FAILURE() << type.text;
    } catch (const UserError& error) {
      EXPECT_EQ(error.what_happened(), "parts of a partial value of type " +
                                           std::string(type.text) + " cannot be combined");
    }
  }
}

TEST(BoxCombine, SixteenBitsAreCombinedInF32AndRoundedOnce) {
  // Of bf16, 256 + 1 + 1 is 258 when it is rounded once, and 256 when each sum is: 257 rounds to
  // the even 256. The row is longer than a piece, and its stride in the sources is 2.
  const Shape whole{1500, 2}, column{1500, 1};
  const Box box{{{0, 1500}, {1, 2}}};
  std::vector<Tensor> parts;
  for (const double number : {256.0, 1.0, 1.0}) {
    parts.emplace_back(TensorType{DType::kBF16, whole});
    for (BFloat16& element : parts.back().values<BFloat16>()) element = BFloat16(number);
  }
  Tensor target({DType::kBF16, column});
  BoxCombine combine(DType::kBF16, ReduceOp::kSum, box, box);
  for (size_t i : {0, 1, 2}) combine.add_source(i, whole_box(whole));
  combine.join_dims();
  combine.run(target.data(),
              std::array<const std::byte*, 3>{parts[0].data(), parts[1].data(), parts[2].data()});
  for (const BFloat16 element : target.values<BFloat16>()) ASSERT_EQ(element.to_double(), 258);
}

TEST(BoxCombine, ReducesSixteenBitsByTheReductionsOfFloats) {
  const auto numbers = [](ReduceOp reduce) {
    std::vector<double> results;
    for (const Float16 element :
         combined<Float16>(reduce, {Float16(1), Float16(-2)}, {Float16(0.5), Float16(4)}))
      results.push_back(element.to_double());
    return results;
  };
  EXPECT_EQ(numbers(ReduceOp::kSum), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(numbers(ReduceOp::kProd), (std::vector<double>{0.5, -8}));
  EXPECT_EQ(numbers(ReduceOp::kMax), (std::vector<double>{1, 4}));
  EXPECT_EQ(numbers(ReduceOp::kMin), (std::vector<double>{0.5, -2}));
}

TEST(BoxCombine, LongRowsAreAddedInTheOrderOfTheirSources) {
  const Shape shape{3, 5000};  // longer than a piece, and joined to one row of 15000
  const Tensor a = random_tensor("a", {DType::kF32, shape}),
               b = random_tensor("b", {DType::kF32, shape}),
               c = random_tensor("c", {DType::kF32, shape});
  Tensor target({DType::kF32, shape});
  BoxCombine combine(DType::kF32, ReduceOp::kSum, whole_box(shape), whole_box(shape));
  for (size_t i : {0, 1, 2}) combine.add_source(i, whole_box(shape));
  combine.join_dims();
  combine.run(target.data(), std::array{a.data(), b.data(), c.data()});
  std::vector<float> expected;
  for (size_t i = 0; i < 15000; ++i)
    expected.push_back((a.values<float>()[i] + b.values<float>()[i]) + c.values<float>()[i]);
  EXPECT_EQ(list<float>(target), expected);
}

TEST(BoxCombine, TheIdentityChangesNothing) {
  Tensor one({DType::kF32, {1}});
  fill_with_identity(DType::kF32, ReduceOp::kMax, one.data(), 1);
  EXPECT_EQ(one.values<float>()[0], -std::numeric_limits<float>::infinity());
  fill_with_identity(DType::kF32, ReduceOp::kProd, one.data(), 1);
  EXPECT_EQ(one.values<float>()[0], 1);
  Tensor whole({DType::kI32, {1}});
  fill_with_identity(DType::kI32, ReduceOp::kMin, whole.data(), 1);
  EXPECT_EQ(whole.values<int32_t>()[0], std::numeric_limits<int32_t>::max());
  Tensor bit({DType::kBool, {1}});
  fill_with_identity(DType::kBool, ReduceOp::kAll, bit.data(), 1);
  EXPECT_EQ(bit.values<uint8_t>()[0], 1);
}

TEST(BoxCombine, AVeryLongSumHasTheBitsOfAPlainLoop) {
  // Three rows of 700 001 elements, with a column cut off on the left: the rows are separate and
  // not aligned to vectors, and exceed 8 MiB.
  const Shape shape{3, 700002};
  const Box box{{{0, 3}, {1, 700002}}};
  const Tensor a = random_tensor("a", {DType::kF32, shape}),
               b = random_tensor("b", {DType::kF32, shape});
  Tensor target({DType::kF32, shape});
  BoxCombine combine(DType::kF32, ReduceOp::kSum, box, whole_box(shape));
  for (size_t i : {0, 1}) combine.add_source(i, whole_box(shape));
  combine.join_dims();
  combine.run(target.data(), std::array{a.data(), b.data()});
  int64_t wrong = 0;
  for (size_t i = 0; i < static_cast<size_t>(target.size()); ++i)
    wrong += target.values<float>()[i] !=
             (i % 700002 == 0 ? 0.0f : a.values<float>()[i] + b.values<float>()[i]);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tessera
