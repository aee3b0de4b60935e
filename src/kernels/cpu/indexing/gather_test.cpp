#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

Shape rows_shape(const Shape& ids, const Shape& table) {
  Shape shape = ids;
  for (int dim = 1; dim < table.size(); ++dim) shape.push_back(table[dim]);
  return shape;
}

Shape random_table(Generator& generator) {
  return random_shape(generator, static_cast<int>(random_int(generator, 1, 3)));
}

TEST(GatherKernels, RowsOutsideTheTableAreZeros) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  inputs.push_back(Tensor::of<int32_t>({4}, {9, 10, 11, 12}));
  const Tensors out =
      run_fast({"gather", {10}, {}, "", types_of(inputs), {{DType::kF32, {4, 2}}}}, inputs);
  const auto values = out[0].values<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{0, 0, 1, 2, 3, 4, 0, 0}));
}

TEST(GatherKernels, GatherEqualsTheReferenceForEveryElementType) {
  Generator generator(1);
  for (DType dtype : {DType::kF32, DType::kI32, DType::kBool})
    for (int round = 0; round < 60; ++round) {
      const int64_t begin = random_int(generator, 0, 5);
      const TensorType table{dtype, random_table(generator)};
      Tensors inputs;
      inputs.push_back(random_tensor(generator, table));
      inputs.push_back(random_ids(
          generator, random_shape(generator, static_cast<int>(random_int(generator, 0, 2))), -2,
          14));
      const TensorType out{dtype, rows_shape(inputs[1].shape(), table.shape)};
      expect_equals_reference({"gather", {begin}, {}, "", types_of(inputs), {out}}, inputs,
                              to_text(table));
    }
}

TEST(GatherKernels, ScatterAddEqualsTheReferenceBitForBitAsItAddsInOrder) {
  Generator generator(2);
  for (int round = 0; round < 120; ++round) {
    const int64_t begin = random_int(generator, 0, 5);
    const TensorType table{DType::kF32, random_table(generator)};
    Tensors inputs;
    inputs.push_back(random_ids(
        generator, random_shape(generator, static_cast<int>(random_int(generator, 0, 2))), -2, 14));
    inputs.push_back(
        random_tensor(generator, {DType::kF32, rows_shape(inputs[0].shape(), table.shape)}));
    expect_equals_reference({"scatter_add", {begin}, {}, "", types_of(inputs), {table}}, inputs,
                            to_text(table));
  }
}

TEST(GatherKernels, ScatterAddDropsRowsOutsideAndAddsRepeatedOnes) {
  Tensors inputs;
  inputs.push_back(Tensor::of<int32_t>({4}, {1, 0, 1, 2}));
  inputs.push_back(Tensor::of<float>({4, 1}, {1, 10, 100, 1000}));
  const Tensors out =
      run_fast({"scatter_add", {0}, {}, "", types_of(inputs), {{DType::kF32, {2, 1}}}}, inputs);
  EXPECT_EQ(out[0].values<float>()[0], 10.0f);
  EXPECT_EQ(out[0].values<float>()[1], 101.0f);  // 1 + 100; the row 2 is not here
}

// A vocabulary is split over ranks: each looks up its own rows, and the sum is the whole lookup.
TEST(GatherKernels, PartsOfATableAddUpToTheWholeLookup) {
  Generator generator(3);
  Tensors whole;
  whole.push_back(random_tensor(generator, {DType::kF32, {10, 3}}));
  whole.push_back(random_ids(generator, {20}, 0, 9));
  const TensorType out_type{DType::kF32, {20, 3}};
  const Tensors expected = run_fast({"gather", {0}, {}, "", types_of(whole), {out_type}}, whole);
  Tensor sum(out_type);
  for (int64_t part = 0; part < 3; ++part) {
    const Range rows = balanced_part(10, 3, part);
    Tensors inputs;
    const auto values =
        whole[0].values<float>().subspan(rows.begin * 3, static_cast<size_t>(rows.size() * 3));
    inputs.push_back(Tensor::of<float>({rows.size(), 3}, std::span<const float>(values)));
    inputs.push_back(whole[1].clone());
    const Tensors rows_of_part =
        run_fast({"gather", {rows.begin}, {}, "", types_of(inputs), {out_type}}, inputs);
    for (size_t i = 0; i < 60; ++i) sum.values<float>()[i] += rows_of_part[0].values<float>()[i];
  }
  expect_same_bits(sum, expected[0], "three parts of the table");
}

TEST(GatherKernels, SomeOfTheIdsGiveTheSameBitsAsTheirRowsOfTheWhole) {
  Generator generator(4);
  Tensors whole;
  whole.push_back(random_tensor(generator, {DType::kF32, {5, 3}}));
  whole.push_back(random_ids(generator, {9}, 0, 6));
  const Tensors expected =
      run_fast({"gather", {0}, {}, "", types_of(whole), {{DType::kF32, {9, 3}}}}, whole);
  Tensors part;
  part.push_back(whole[0].clone());
  part.push_back(
      Tensor::of<int32_t>({4}, std::span<const int32_t>(whole[1].values<int32_t>().subspan(3, 4))));
  const Tensors rows =
      run_fast({"gather", {0}, {}, "", types_of(part), {{DType::kF32, {4, 3}}}}, part);
  expect_same_bits(
      rows[0], Tensor::of<float>({4, 3}, std::as_const(expected[0]).values<float>().subspan(9, 12)),
      "ids 3 to 6");
}

}  // namespace
}  // namespace tessera
