#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

LocalCall reduce_call(const std::string& op, const TensorType& in,
                      const std::vector<int64_t>& dims) {
  TensorType out{in.dtype, {}};
  for (int dim = 0; dim < in.shape.size(); ++dim)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) out.shape.push_back(in.shape[dim]);
  return {"reduce." + op, dims, {}, "", {in}, {out}};
}

std::vector<int64_t> subset(int rank, int bits) {
  std::vector<int64_t> dims;
  for (int dim = 0; dim < rank; ++dim)
    if ((bits >> dim) & 1) dims.push_back(dim);
  return dims;
}

Tensors one(Tensor tensor) {
  Tensors tensors;
  tensors.push_back(std::move(tensor));
  return tensors;
}

// Calls visit(type, dims) for random shapes and every set of dims.
template <typename Visit>
void for_each_case(Generator& generator, DType dtype, int rounds, const Visit& visit) {
  for (int rank = 0; rank <= 4; ++rank)
    for (int bits = 0; bits < (1 << rank); ++bits)
      for (int round = 0; round < rounds; ++round)
        visit(TensorType{dtype, random_shape(generator, rank)}, subset(rank, bits));
}

TEST(ReduceKernels, SumsOverEverySetOfDimsAreWithinTheRoundingsOfTheirTerms) {
  Generator generator(1);
  for_each_case(
      generator, DType::kF32, 6, [&](const TensorType& type, const std::vector<int64_t>& dims) {
        const LocalCall call = reduce_call("sum", type, dims);
        const Tensors inputs = one(random_tensor(generator, type));
        const Tensors expected = run_plain(call, inputs),
                      sums = run_plain(call, one(absolute(inputs[0])));
        const double terms = element_count(call.outputs[0].shape) == 0
                                 ? 0.0
                                 : 1.0 * inputs[0].size() / element_count(call.outputs[0].shape);
        const auto tolerance = [&](size_t i) {
          return (terms + 1) * kRoundoff * sums[0].values<float>()[i];
        };
        expect_near(run_fast(call, inputs)[0], expected[0], tolerance, "sum of " + to_text(type));
      });
}

TEST(ReduceKernels, MaxAndMinEqualTheReference) {
  Generator generator(2);
  for (DType dtype : {DType::kF32, DType::kI32})
    for (const char* op : {"max", "min"})
      for_each_case(
          generator, dtype, 2, [&](const TensorType& type, const std::vector<int64_t>& dims) {
            expect_equals_reference(reduce_call(op, type, dims),
                                    one(random_tensor(generator, type)), op + to_text(type));
          });
}

TEST(ReduceKernels, IntegerSumsAndProductsWrapAndEqualTheReference) {
  Generator generator(3);
  for (const char* op : {"sum", "prod"})
    for_each_case(
        generator, DType::kI32, 2, [&](const TensorType& type, const std::vector<int64_t>& dims) {
          expect_equals_reference(reduce_call(op, type, dims), one(random_tensor(generator, type)),
                                  op + to_text(type));
        });
}

TEST(ReduceKernels, AnyAndAllEqualTheReference) {
  Generator generator(4);
  for (const char* op : {"any", "all"})
    for_each_case(
        generator, DType::kBool, 2, [&](const TensorType& type, const std::vector<int64_t>& dims) {
          expect_equals_reference(reduce_call(op, type, dims), one(random_tensor(generator, type)),
                                  op + to_text(type));
        });
}

TEST(ReduceKernels, ProductsAreWithinOneRoundingAFactor) {
  Generator generator(5);
  for_each_case(
      generator, DType::kF32, 2, [&](const TensorType& type, const std::vector<int64_t>& dims) {
        if (element_count(type.shape) > 60) return;  // larger products leave the range of f32
        const LocalCall call = reduce_call("prod", type, dims);
        const Tensors inputs = one(random_tensor(generator, type));
        const Tensors expected = run_plain(call, inputs);
        const auto tolerance = [&](size_t i) {
          return 61 * kRoundoff * std::fabs(expected[0].values<float>()[i]) + 0x1p-140;
        };
        expect_near(run_fast(call, inputs)[0], expected[0], tolerance, "prod of " + to_text(type));
      });
}

TEST(ReduceKernels, AnEmptyRangeGivesTheIdentity) {
  const std::vector<std::pair<std::string, float>> identities = {
      {"sum", 0.0f}, {"prod", 1.0f}, {"max", -kInfinity}, {"min", kInfinity}};
  for (const auto& [op, identity] : identities) {
    const TensorType tall{DType::kF32, {0, 3}};
    const Tensors columns = run_fast(reduce_call(op, tall, {0}), one(Tensor(tall)));
    for (float x : columns[0].values<float>()) EXPECT_EQ(x, identity) << op;
    const TensorType wide{DType::kF32, {3, 0}};
    const Tensors rows = run_fast(reduce_call(op, wide, {1}), one(Tensor(wide)));
    for (float x : rows[0].values<float>()) EXPECT_EQ(x, identity) << op;
  }
}

TEST(ReduceKernels, MaxAndMinOfNaNAreNaNInRowsAndColumns) {
  for (const char* op : {"max", "min"})
    for (int64_t place : {0, 7, 16, 39}) {
      const TensorType type{DType::kF32, {40}};
      Tensor values(type);
      std::iota(values.values<float>().begin(), values.values<float>().end(), 0.0f);
      values.values<float>()[place] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(
          run_fast(reduce_call(op, type, {0}), one(values.clone()))[0].values<float>()[0]))
          << op << place;
      Tensor column({DType::kF32, {40, 2}});
      for (size_t i = 0; i < 40; ++i) column.values<float>()[2 * i] = values.values<float>()[i];
      const Tensors out = run_fast(reduce_call(op, column.type(), {0}), one(column.clone()));
      EXPECT_TRUE(std::isnan(out[0].values<float>()[0])) << op << place;
      EXPECT_EQ(out[0].values<float>()[1], 0.0f) << op << place;
    }
}

// The result must depend only on the values that it combines: the same numbers as a row, as a
// column among others, and as pieces.
TEST(ReduceKernels, OneSetOfValuesHasOneSumInEveryLayout) {
  Generator generator(6);
  for (int64_t count : {1, 2, 15, 16, 17, 30, 255, 256, 257, 510, 1000, 5000}) {
    const Tensor row = random_tensor(generator, {DType::kF32, {count}});
    const float sum =
        run_fast(reduce_call("sum", row.type(), {0}), one(row.clone()))[0].values<float>()[0];
    for (int64_t columns : {1, 2, 9, 130}) {
      Tensor matrix = random_tensor(generator, {DType::kF32, {count, columns}});
      const int64_t column = columns - 1;
      for (int64_t i = 0; i < count; ++i)
        matrix.values<float>()[i * columns + column] = row.values<float>()[i];
      const Tensors sums = run_fast(reduce_call("sum", matrix.type(), {0}), one(matrix.clone()));
      EXPECT_EQ(sums[0].values<float>()[column], sum)
          << count << " values in a column of " << columns;
    }
    if (count % 5 != 0) continue;
    const int64_t run =
        count /
        5;  // five pieces with other rows between them: [5, 2, run], reduced over dims 0 and 2
    Tensor pieces = random_tensor(generator, {DType::kF32, {5, 2, run}});
    for (int64_t i = 0; i < count; ++i)
      pieces.values<float>()[(i / run * 2 + 1) * run + i % run] = row.values<float>()[i];
    EXPECT_EQ(run_fast(reduce_call("sum", pieces.type(), {0, 2}), one(pieces.clone()))[0]
                  .values<float>()[1],
              sum)
        << count;
  }
}

// The order of combining has 16 lanes for any width of the machine's vectors, so machines agree.
TEST(ReduceKernels, NarrowVectorsGiveTheSameBitsAsWideOnes) {
  Generator generator(7);
  for (const char* op : {"sum", "max", "prod"})
    for (int64_t count : {1, 15, 16, 17, 100, 1000}) {
      const Tensors row = one(random_tensor(generator, {DType::kF32, {count}}));
      const LocalCall call = reduce_call(op, row[0].type(), {0});
      const Tensors wide = run_fast(call, row);
      hwy::DisableTargets(HWY_AVX3 | HWY_AVX2);
      const Tensors narrow = run_fast(call, row);
      hwy::DisableTargets(0);
      expect_same_bits(narrow[0], wide[0], op + std::string(" of ") + std::to_string(count));
    }
}

TEST(ReduceKernels, AMillionTermsLoseNoMoreThanTheirTreeIsDeep) {
  constexpr int64_t kCount = 1 << 20;
  Tensor values({DType::kF32, {kCount}});
  for (float& x : values.values<float>()) x = 0.1f;
  const double exact = kCount * static_cast<double>(0.1f);
  // 16 terms a lane (256 / 16), 4 levels of lanes, 12 levels of blocks (2^20 / 256 = 2^12).
  const double tolerance = (16 + 4 + 12) * kRoundoff * exact;
  EXPECT_NEAR(
      run_fast(reduce_call("sum", values.type(), {0}), one(values.clone()))[0].values<float>()[0],
      exact, tolerance);
  Tensor column({DType::kF32, {kCount / 2, 2}});
  for (float& x : column.values<float>()) x = 0.1f;
  EXPECT_NEAR(
      run_fast(reduce_call("sum", column.type(), {0}), one(column.clone()))[0].values<float>()[1],
      exact / 2, tolerance / 2);
}

TEST(ReduceKernels, OperandsThatDoNotFitAreRefusedWhenTheCallIsBound) {
  const TensorType in{DType::kF32, {2, 3}};
  EXPECT_THROW(bind_kernel({"reduce.sum", {2}, {}, "", {in}, {{DType::kF32, {2}}}}), InternalError);
  EXPECT_THROW(bind_kernel({"reduce.sum", {0}, {}, "", {in}, {{DType::kF32, {2}}}}), InternalError);
  EXPECT_THROW(bind_kernel({"reduce.any", {0}, {}, "", {in}, {{DType::kF32, {3}}}}), InternalError);
}

}  // namespace
}  // namespace tessera
