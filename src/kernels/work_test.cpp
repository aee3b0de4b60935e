// The work and the workspace of calls, in numbers. src/ir/ops/testing/operator_check.h compares the
// workspace of every kernel with that of the bound one, and the work with that of the operators.
#include "kernels/work.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/tensor_types.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

TEST(Work, OfAMatmulIsTwoOperationsForEachCombinationOfItsLetters) {
  // 2 batches of 3 x 4 by 4 x 5: 2 x 3 x 4 x 5 products. It reads 24 + 40 elements and writes 30.
  const LocalCall call{"dot_general",   {}, {}, "bmk,bkn->bmn", {f32({2, 3, 4}), f32({2, 4, 5})},
                       {f32({2, 3, 5})}};
  LocalWork expected{OperationClass::kMatmul, DType::kF32, Flops(240),   Bytes(4 * 64),
                     Bytes(4 * 30),           2,           "dot_general"};
  expected.smallest_extent = 3;  // its rows
  EXPECT_EQ(work_of(call), expected) << "the 2 products are its pieces";
}

TEST(Work, OfTheHalvesOfAMatmulAddsUpToTheWhole) {
  const auto flops = [](int64_t m, int64_t k, int64_t n) {
    return work_of({"dot_general", {}, {}, "mk,kn->mn", {f32({m, k}), f32({k, n})}, {f32({m, n})}})
        .flops;
  };
  EXPECT_EQ(flops(4, 6, 8), Flops(384));
  EXPECT_EQ(flops(2, 6, 8) + flops(2, 6, 8), Flops(384));
  EXPECT_EQ(flops(4, 3, 8) + flops(4, 3, 8), Flops(384));
  EXPECT_EQ(flops(4, 6, 4) + flops(4, 6, 4), Flops(384));
}

TEST(Work, OfAnElementwiseKernelDependsOnItsFunction) {
  const auto flops = [](const char* kernel) {
    return work_of({kernel, {}, {}, "", {f32({10}), f32({10})}, {f32({10})}}).flops;
  };
  EXPECT_EQ(flops("binary.add"), Flops(10));
  EXPECT_EQ(flops("binary.div"), Flops(40));
  EXPECT_EQ(flops("binary.pow"), Flops(120));
}

TEST(Work, OfAConvolutionIsThatOfItsProducts) {
  // y[1, 6, 4, 4] in 2 groups of 3 channels, windows of 3 x 3: 96 elements of 3 x 9 products each.
  std::vector<int64_t> ints;
  for (int d = 0; d < 2; ++d) ints.insert(ints.end(), {3, 1, 1, 1, 4, 0, 0});
  const TensorType x = f32({1, 6, 4, 4}), w = f32({6, 3, 3, 3}), y = f32({1, 6, 4, 4});
  const Flops products(2 * 96 * 3 * 9);
  EXPECT_EQ(work_of({"convolution", ints, {}, "", {x, w}, {y}}).flops, products);
  EXPECT_EQ(work_of({"convolution_grad_input", ints, {}, "", {y, w}, {x}}).flops, products);
  EXPECT_EQ(work_of({"convolution_grad_weight", ints, {}, "", {x, y}, {w}}).flops, products);
}

/// A convolution of these channels on images of 2 x 3 with windows of 3 x 3 and a padding of 1.
LocalWork convolution_work(const char* kernel, int64_t in, int64_t out) {
  std::vector<int64_t> ints;
  for (int64_t extent : {2, 3}) ints.insert(ints.end(), {3, 1, 1, 1, extent, 0, 0});
  const TensorType x = f32({4, in, 2, 3}), w = f32({out, in, 3, 3}), y = f32({4, out, 2, 3});
  if (std::string_view(kernel) == "convolution_grad_weight")
    return work_of({kernel, ints, {}, "", {x, y}, {w}});
  const bool is_forward = std::string_view(kernel) == "convolution";
  return work_of({kernel, ints, {}, "", {is_forward ? x : y, w}, {is_forward ? y : x}});
}

TEST(Rows, OfAConvolutionLeaveOutThePadding) {
  // Of the 3 elements of a window a row of 3 pixels sees 2, 3 and 2, two rows of pixels 1, 2 and 1:
  // 7 of 9 products, and 4 of 6.
  const LocalWork work = convolution_work("convolution", 32, 16);
  const double products = 4 * 32 * 16 * 7 * 4;
  EXPECT_EQ(work.kernel, "convolution");
  EXPECT_EQ(work.flops, Flops(2.0 * 4 * 32 * 16 * 9 * 6));
  EXPECT_NEAR(work.flops.value() - work.padding.value(), 2 * products, 1e-6);
  ASSERT_TRUE(work.rows);
  EXPECT_EQ(work.rows->executed, Flops(2 * products));
  EXPECT_DOUBLE_EQ(work.rows->row.value(), 2 * 16 * 16 * 7 / 3.0);
  EXPECT_EQ(work.rows->copied, Bytes(4 * (4 * 32 * 6 + 4 * 16 * 6 + 32 * 16 * 9)));
}

TEST(Rows, OfAConvolutionHaveWholeVectorsOfChannels) {
  const LocalWork ragged = convolution_work("convolution_grad_input", 20, 40),
                  whole = convolution_work("convolution_grad_input", 32, 48);
  EXPECT_EQ(ragged.kernel, "convolution_grad_input.ragged");
  EXPECT_EQ(ragged.rows, whole.rows);
  EXPECT_LT(ragged.flops, whole.flops);
  const LocalWork few = convolution_work("convolution_grad_weight", 3, 16);
  EXPECT_EQ(few.kernel, "convolution_grad_weight.few_channels");
  EXPECT_EQ(few.rows->executed, Flops(2 * 4 * 3 * 16 * 7 * 4)) << "its channels of x fill none";
}

TEST(Rows, OfAPointwiseConvolutionAreItsImages) {
  const std::vector<int64_t> ints{1, 1, 1, 0, 2, 0, 0, 1, 1, 1, 0, 3, 0, 0};
  const TensorType x = f32({4, 16, 2, 3}), w = f32({16, 16, 1, 1});
  const LocalWork work = work_of({"convolution", ints, {}, "", {x, w}, {x}});
  EXPECT_EQ(work.kernel, "convolution.pointwise");
  EXPECT_EQ(work.padding, Flops(0));
  EXPECT_EQ(work.rows->row, Flops(2 * 16 * 16 * 6));
}

TEST(Rows, OfTheHalvesOfAnImageWithTheirHalosAddUpToTheWhole) {
  // Rows 0 and 1 of 4 with row 2, and rows 2 and 3 with row 1.
  const auto part = [](int64_t in_begin, int64_t out_begin, int64_t in, int64_t out) {
    const std::vector<int64_t> ints{3, 1, 1, 1, 4, in_begin, out_begin, 3, 1, 1, 1, 3, 0, 0};
    return *work_of({"convolution",
                     ints,
                     {},
                     "",
                     {f32({2, 16, in, 3}), f32({16, 16, 3, 3})},
                     {f32({2, 16, out, 3})}})
                .rows;
  };
  const RowWork first = part(0, 0, 3, 2), second = part(1, 2, 3, 2), whole = part(0, 0, 4, 4);
  EXPECT_EQ(first.executed + second.executed, whole.executed);
  EXPECT_EQ(first.row, whole.row);
}

TEST(Work, OfAGatherIsThatOfItsRows) {
  // 2 rows of 8 elements are read and written, and 2 indices are read; the table has 50,000 rows.
  const LocalCall call{"gather", {0}, {}, "", {f32({50000, 8}), i32({2})}, {f32({2, 8})}};
  EXPECT_EQ(work_of(call), (LocalWork{OperationClass::kGather, DType::kF32, Flops(0), Bytes(64 + 8),
                                      Bytes(64), 2, "gather"}));
}

LocalCall causal_attention(int64_t queries, int64_t first) {
  const TensorType q = f32({1, queries, 1, 2}), k = f32({1, 8, 1, 2});
  return {"attention", {1, first}, {1.0}, "", {q, k, k}, {q, f32({1, 1, queries})}};
}

TEST(Work, OfCausalAttentionGrowsWithThePositionOfTheQueries) {
  // 8 x 8 pairs, of which a mask leaves 32; 2 products of depth 2, 2 operations each: 8 for a pair.
  EXPECT_EQ(work_of(causal_attention(8, 0)).flops, Flops(8 * 32));
  // The first 4 queries see 4 x 4 / 2 = 8, the last ones 4 x 4 + 8 = 24.
  EXPECT_EQ(work_of(causal_attention(4, 0)).flops, Flops(8 * 8));
  EXPECT_EQ(work_of(causal_attention(4, 4)).flops, Flops(8 * 24));
}

LocalWork work_on(const char* kernel, std::vector<int64_t> ints, const Shape& in,
                  const Shape& out) {
  return work_of({kernel, std::move(ints), {0.0}, "", {f32(in)}, {f32(out)}});
}

TEST(Pieces, OfACopyAreItsRunsOfConsecutiveElements) {
  // Rows of 8 of which 3 elements are taken, and whole planes of 5 x 8.
  EXPECT_EQ(work_on("slice", {0, 0, 0, 1, 1, 1}, {2, 5, 8}, {2, 5, 3}).pieces, 10);
  EXPECT_EQ(work_on("slice", {0, 0, 0, 1, 1, 1}, {2, 5, 8}, {1, 5, 8}).pieces, 1);
  EXPECT_EQ(work_on("pad", {0, 0, 0}, {2, 5, 3}, {2, 5, 8}).pieces, 10);
  // 5 x 2 blocks of 8 change places; the transpose of the last dim is no sum of runs.
  const LocalWork blocks = work_on("transpose", {1, 0, 2}, {2, 5, 8}, {5, 2, 8});
  EXPECT_EQ(blocks.pieces, 10);
  EXPECT_EQ(blocks.kernel, "transpose.runs");
  EXPECT_EQ(work_on("transpose", {0, 2, 1}, {2, 5, 8}, {2, 8, 5}).kernel, "transpose");
}

TEST(Pieces, OfABroadcastAreTheRunsThatItRepeatsOrFills) {
  EXPECT_EQ(work_on("broadcast", {1}, {8}, {5, 8}).pieces, 5) << "each row is a copy";
  EXPECT_EQ(work_on("broadcast", {0}, {5}, {5, 8}).pieces, 5) << "each row is one number";
  EXPECT_EQ(work_on("broadcast", {}, {}, {5, 8}).pieces, 1) << "all is one number";
  EXPECT_EQ(work_on("broadcast", {0, 1}, {5, 1}, {5, 8}).pieces, 5);
}

TEST(Pieces, OfAReductionAreItsRowsOrTheGroupsOfRowsThatItAdds) {
  EXPECT_EQ(work_on("reduce.sum", {2}, {2, 5, 8}, {2, 5}).pieces, 10);
  EXPECT_EQ(work_on("reduce.sum", {1, 2}, {2, 5, 8}, {2}).pieces, 2);
  const LocalWork planes = work_on("reduce.sum", {0, 2}, {2, 5, 8}, {5});
  EXPECT_EQ(planes.pieces, 10);
  EXPECT_EQ(planes.kernel, "reduce.planes");
  const LocalWork columns = work_on("reduce.max", {1}, {2, 5, 8}, {2, 8});
  EXPECT_EQ(columns.pieces, 2);
  EXPECT_EQ(columns.kernel, "reduce.groups");
  EXPECT_EQ(work_on("reduce.max", {0}, {5, 8}, {8}).kernel, "reduce.columns");
}

TEST(Pieces, OfAttentionAreTheRowsOfItsQueries) {
  // 1 batch, 1 head, 4 queries.
  EXPECT_EQ(work_of(causal_attention(4, 0)).pieces, 4);
  EXPECT_EQ(work_of(causal_attention(4, 0)).kernel, "attention.causal");
  const TensorType q = f32({1, 4, 1, 2}), whole = f32({1, 32, 1, 2}), ragged = f32({1, 33, 1, 2});
  const auto kernel = [&](const TensorType& k) {
    return work_of({"attention", {0, 0}, {1.0}, "", {q, k, k}, {q, f32({1, 1, 4})}}).kernel;
  };
  EXPECT_EQ(kernel(whole), "attention");
  EXPECT_EQ(kernel(ragged), "attention.ragged") << "its rows do not fill vectors";
}

TEST(Work, OfAnEmptyPartIsNothing) {
  EXPECT_EQ(work_of({"unary.exp", {}, {}, "", {f32({0, 3})}, {f32({0, 3})}}).flops, Flops(0));
}

TEST(Workspace, OfAMatmulIsThatOfThePackedOperands) {
  const LocalCall plain{"dot_general", {}, {}, "mk,kn->mn", {f32({3, 4}), f32({4, 5})},
                        {f32({3, 5})}};
  EXPECT_EQ(workspace_of(plain), Bytes(0));
}

TEST(Workspace, OfASortIsALaneWithIndices) {
  // 7 elements of 4 bytes, each with an index of 4 bytes.
  const LocalCall call{"sort", {1, 0}, {}, "", {f32({3, 7})}, {f32({3, 2}), i32({3, 2})}};
  EXPECT_EQ(workspace_of(call), Bytes(7 * 8));
}

TEST(Workspace, OfAnElementTypeWithoutKernelsIsRefused) {
  const TensorType wide{DType::kF64, {3}};
  EXPECT_THROW(workspace_of({"unary.exp", {}, {}, "", {wide}, {wide}}), UserError);
}

// ---- kernels of a user ----

BoundKernel bind_anything(const LocalCall&) {
  return {[](const KernelBuffers&) {}, Bytes(96)};
}

TEST(Work, OfAKernelOfTheUserHasADefault) {
  const KernelSet own({{.name = "mine", .bind = bind_anything}});
  // One operation for each of 6 elements of the result, and 24 + 24 bytes.
  const LocalCall call{"mine", {}, {}, "", {f32({2, 3})}, {f32({2, 3})}};
  EXPECT_EQ(work_of(call, &own),
            (LocalWork{OperationClass::kElementwise, DType::kF32, Flops(6), Bytes(24), Bytes(24)}));
  EXPECT_EQ(workspace_of(call, &own), Bytes(96)) << "the kernel is bound";
}

TEST(Work, OfAKernelOfTheUserMayHaveAFormula) {
  const KernelSet own({{.name = "mine",
                        .bind = [](const LocalCall&) -> BoundKernel {
                          throw InternalError("nothing is bound where formulas are given");
                        },
                        .work = [](const LocalCall&) { return LocalWork{.flops = Flops(1000)}; },
                        .workspace = [](const LocalCall&) { return Bytes(64); }}});
  const LocalCall call{"mine", {}, {}, "", {f32({2, 3})}, {f32({2, 3})}};
  EXPECT_EQ(work_of(call, &own).flops, Flops(1000));
  EXPECT_EQ(workspace_of(call, &own), Bytes(64));
}

}  // namespace
}  // namespace tessera
