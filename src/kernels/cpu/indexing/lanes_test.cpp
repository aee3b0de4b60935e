// Compares kernels along a dim, of n-D indices and of groups with their plain twins.
#include <algorithm>
#include <limits>

#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

/// A shape with at least one dim, and one of its dims.
struct Lane {
  Shape shape;
  int64_t dim;
};

Lane random_lane(Generator& generator) {
  const Shape shape = random_shape(generator, static_cast<int>(random_int(generator, 1, 4)));
  return {shape, random_int(generator, 0, shape.size() - 1)};
}

Shape with_extent(Shape shape, int64_t dim, int64_t extent) {
  shape[static_cast<int>(dim)] = extent;
  return shape;
}

// A tensor with few different numbers, and some NaN and infinities.
Tensor random_tied(Generator& generator, const TensorType& type) {
  Tensor tensor(type);
  if (type.dtype == DType::kI32)
    for (int32_t& x : tensor.values<int32_t>())
      x = static_cast<int32_t>(random_int(generator, -2, 2));
  if (type.dtype == DType::kF32)
    for (float& x : tensor.values<float>()) {
      static constexpr float kValues[] = {-kInfinity, -1.5f, -0.0f, 0.0f, 2, 2, kInfinity, kNaN};
      x = kValues[random_int(generator, 0, 7)];
    }
  return tensor;
}

TEST(OrderKernels, EqualTheReferenceWithTiesAndWhatIsNoNumber) {
  Generator generator(1);
  for (DType dtype : {DType::kF32, DType::kI32})
    for (int round = 0; round < 150; ++round) {
      const Lane lane = random_lane(generator);
      const int64_t extent = lane.shape[static_cast<int>(lane.dim)];
      Tensors inputs;
      inputs.push_back(random_tied(generator, {dtype, lane.shape}));
      const Shape wanted =
          with_extent(lane.shape, lane.dim,
                      random_int(generator, 0, 1) ? extent : random_int(generator, 0, extent));
      for (int64_t descending : {0, 1})
        expect_equals_reference({"sort",
                                 {lane.dim, descending},
                                 {},
                                 "",
                                 types_of(inputs),
                                 {{dtype, wanted}, {DType::kI32, wanted}}},
                                inputs,
                                to_text(inputs[0].type()) + " dim " + std::to_string(lane.dim) +
                                    " -> " + to_text(wanted));
      Shape kept;
      for (int dim = 0; dim < lane.shape.size(); ++dim)
        if (dim != lane.dim) kept.push_back(lane.shape[dim]);
      if (extent == 0) continue;
      for (const char* kernel : {"argmax", "argmin"})
        expect_equals_reference(
            {kernel, {lane.dim}, {}, "", types_of(inputs), {{DType::kI32, kept}}}, inputs,
            std::string(kernel) + " " + to_text(inputs[0].type()) + " dim " +
                std::to_string(lane.dim));
    }
}

TEST(OrderKernels, ANumberThatIsNoneIsAboveAllInAnOrderAndFoundByBothExtremes) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({4}, {1, kNaN, -3, kNaN}));
  const TensorType values{DType::kF32, {4}}, indices{DType::kI32, {4}}, one{DType::kI32, {}};
  expect_same_bits(
      run_fast({"sort", {0, 0}, {}, "", types_of(inputs), {values, indices}}, inputs)[1],
      Tensor::of<int32_t>({4}, {2, 0, 1, 3}), "ascending");
  expect_same_bits(
      run_fast({"sort", {0, 1}, {}, "", types_of(inputs), {values, indices}}, inputs)[1],
      Tensor::of<int32_t>({4}, {1, 3, 0, 2}), "descending");
  for (const char* kernel : {"argmax", "argmin"})
    expect_same_bits(run_fast({kernel, {0}, {}, "", types_of(inputs), {one}}, inputs)[0],
                     Tensor::of<int32_t>({}, {1}), kernel);
}

TEST(ScanKernels, EqualTheReferenceBitForBitAsTheyAddInOrder) {
  Generator generator(2);
  for (DType dtype : {DType::kF32, DType::kI32})
    for (int round = 0; round < 100; ++round) {
      const Lane lane = random_lane(generator);
      Tensors inputs;
      inputs.push_back(random_tensor(generator, {dtype, lane.shape}));
      const std::string about = to_text(inputs[0].type()) + " dim " + std::to_string(lane.dim);
      for (int64_t exclusive : {0, 1})
        for (int64_t reverse : {0, 1})
          expect_equals_reference({"cumsum",
                                   {lane.dim, exclusive, reverse},
                                   {},
                                   "",
                                   types_of(inputs),
                                   types_of(inputs)},
                                  inputs, about);
      expect_equals_reference({"reverse", {lane.dim}, {}, "", types_of(inputs), types_of(inputs)},
                              inputs, about);
    }
}

TEST(ScanKernels, ASumOfIntegersWraps) {
  Tensors inputs;
  inputs.push_back(Tensor::of<int32_t>({2}, {std::numeric_limits<int32_t>::max(), 1}));
  const Tensors out =
      run_fast({"cumsum", {0, 0, 0}, {}, "", types_of(inputs), types_of(inputs)}, inputs);
  EXPECT_EQ(out[0].values<int32_t>()[1], std::numeric_limits<int32_t>::min());
}

TEST(TakeKernels, EqualTheReferenceForEveryElementType) {
  Generator generator(3);
  for (DType dtype : {DType::kF32, DType::kI32, DType::kBool})
    for (int round = 0; round < 100; ++round) {
      const Lane lane = random_lane(generator);
      const int64_t begin = random_int(generator, 0, 5);
      Tensors inputs;
      inputs.push_back(random_tensor(generator, {dtype, lane.shape}));
      inputs.push_back(random_ids(
          generator, with_extent(lane.shape, lane.dim, random_int(generator, 0, 5)), -2, 14));
      expect_equals_reference({"take_along_dim",
                               {lane.dim, begin},
                               {},
                               "",
                               types_of(inputs),
                               {{dtype, inputs[1].shape()}}},
                              inputs,
                              to_text(inputs[0].type()) + " dim " + std::to_string(lane.dim));
    }
}

TEST(TakeKernels, ScatterAddEqualsTheReferenceBitForBitAsItAddsInOrder) {
  Generator generator(4);
  for (int round = 0; round < 150; ++round) {
    const Lane lane = random_lane(generator);
    Tensors inputs;
    inputs.push_back(random_ids(generator, lane.shape, -2, 9));
    inputs.push_back(random_tensor(generator, {DType::kF32, lane.shape}));
    const TensorType out{DType::kF32,
                         with_extent(lane.shape, lane.dim, random_int(generator, 0, 6))};
    expect_equals_reference({"scatter_add_along_dim",
                             {lane.dim, random_int(generator, 0, 3)},
                             {},
                             "",
                             types_of(inputs),
                             {out}},
                            inputs, to_text(inputs[1].type()) + " dim " + std::to_string(lane.dim));
  }
}

/// Shapes of a table [R.., T..], of ids [I.., k] and of updates [I.., T..].
struct Rows {
  Shape table, ids, updates;
  std::vector<int64_t> begins;
};

Rows random_rows(Generator& generator) {
  Rows rows;
  rows.table = random_shape(generator, static_cast<int>(random_int(generator, 1, 4)));
  rows.ids = rows.updates = random_shape(generator, static_cast<int>(random_int(generator, 0, 2)));
  const int64_t depth = random_int(generator, 0, rows.table.size());
  rows.ids.push_back(depth);
  for (int64_t d = depth; d < rows.table.size(); ++d)
    rows.updates.push_back(rows.table[static_cast<int>(d)]);
  for (int64_t d = 0; d < depth; ++d) rows.begins.push_back(random_int(generator, 0, 1));
  return rows;
}

TEST(RowKernels, EqualTheReference) {
  Generator generator(5);
  for (DType dtype : {DType::kF32, DType::kI32, DType::kBool})
    for (int round = 0; round < 100; ++round) {
      const Rows rows = random_rows(generator);
      const std::string about = to_text(rows.table) + " by " + to_text(rows.ids);
      const TensorType table{dtype, rows.table}, updates{dtype, rows.updates};
      Tensors gathered, scattered, added;
      for (Tensors* inputs : {&gathered, &scattered}) {
        inputs->push_back(random_tensor(generator, table));
        inputs->push_back(random_ids(generator, rows.ids, -1, 6));
      }
      expect_equals_reference({"gather_nd", rows.begins, {}, "", types_of(gathered), {updates}},
                              gathered, about);
      scattered.push_back(random_tensor(generator, updates));
      expect_equals_reference({"scatter_nd", rows.begins, {}, "", types_of(scattered), {table}},
                              scattered, about);
      if (dtype != DType::kF32) continue;
      added.push_back(scattered[1].clone());
      added.push_back(scattered[2].clone());
      expect_equals_reference({"scatter_add_nd", rows.begins, {}, "", types_of(added), {table}},
                              added, about);
    }
}

TEST(RowKernels, TheLastOfSeveralUpdatesStays) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({3}, {1, 2, 3}));
  inputs.push_back(Tensor::of<int32_t>({3, 1}, {2, 0, 2}));
  inputs.push_back(Tensor::of<float>({3}, {7, 8, 9}));
  expect_same_bits(
      run_fast({"scatter_nd", {0}, {}, "", types_of(inputs), {inputs[0].type()}}, inputs)[0],
      Tensor::of<float>({3}, {8, 2, 9}), "two updates of element 2");
}

/// The tolerance of sums of products that differ only in their order: `terms` roundings of the sum
/// of absolute products, which are at most 4 each here.
double group_tolerance(int64_t terms) {
  return static_cast<double>(terms * terms) * 4 * kRoundoff;
}

void expect_near_reference(const LocalCall& call, const Tensors& inputs, int64_t terms) {
  expect_near(
      run_fast(call, inputs)[0], run_plain(call, inputs)[0],
      [&](size_t) { return group_tolerance(terms + 1); },
      call.kernel + " " + to_text(call.inputs[0]) + " " + to_text(call.inputs[1]));
}

TEST(GroupKernels, EqualTheReferenceForAnyPartOfRowsAndGroups) {
  Generator generator(6);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = random_int(generator, 0, 9), groups = random_int(generator, 0, 4),
                  before = random_int(generator, 0, 2);
    const int64_t inner = random_int(generator, 0, 5), columns = random_int(generator, 0, 5),
                  row_begin = random_int(generator, 0, 4);
    const int64_t transposed = random_int(generator, 0, 1);
    Tensors matmul, outer;
    for (Tensors* inputs : {&matmul, &outer})
      inputs->push_back(random_tensor(generator, {DType::kF32, {rows, inner}}));
    matmul.push_back(random_tensor(
        generator,
        {DType::kF32, transposed ? Shape{groups, columns, inner} : Shape{groups, inner, columns}}));
    outer.push_back(random_tensor(generator, {DType::kF32, {rows, columns}}));
    for (Tensors* inputs : {&matmul, &outer})
      inputs->push_back(
          random_ids(generator, {before + groups + random_int(generator, 0, 2)}, -1, 4));
    expect_near_reference({"grouped_matmul",
                           {transposed, row_begin, before},
                           {},
                           "",
                           types_of(matmul),
                           {{DType::kF32, {rows, columns}}}},
                          matmul, inner);
    expect_near_reference({"grouped_outer",
                           {row_begin, before},
                           {},
                           "",
                           types_of(outer),
                           {{DType::kF32, {groups, inner, columns}}}},
                          outer, rows);
  }
}

TEST(GroupKernels, RowsAreSortedByGroupAndThoseLeftOverAreZeros) {
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({4, 1}, {1, 2, 3, 4}));
  inputs.push_back(Tensor::of<float>({2, 1, 1}, {10, 100}));
  inputs.push_back(Tensor::of<int32_t>({2}, {1, 2}));
  expect_same_bits(
      run_fast({"grouped_matmul", {0, 0, 0}, {}, "", types_of(inputs), {{DType::kF32, {4, 1}}}},
               inputs)[0],
      Tensor::of<float>({4, 1}, {10, 200, 300, 0}), "one row of 10, two of 100, one of none");
}

}  // namespace
}  // namespace tessera
