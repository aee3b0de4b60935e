#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "kernels/bind.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

constexpr int kRounds = 120;

DType random_dtype(Generator& generator) {
  return kTypes[random_int(generator, 0, 2)];
}

// Runs one call on a random input of its type.
void movement_check(Generator& generator, const LocalCall& call) {
  Tensors inputs;
  for (const TensorType& type : call.inputs) inputs.push_back(random_tensor(generator, type));
  const std::string from = call.inputs.empty() ? "" : to_text(call.inputs[0]);
  expect_equals_reference(call, inputs,
                          call.kernel + " " + from + " -> " + to_text(call.outputs[0]));
}

TEST(MovementKernels, ConstantFillsEveryElementType) {
  Generator generator(1);
  for (int round = 0; round < kRounds; ++round)
    movement_check(generator, {"constant",
                               {},
                               {random_int(generator, -3, 3) * 1.0},
                               "",
                               {},
                               {{random_dtype(generator), random_shape(generator, 2)}}});
}

TEST(MovementKernels, IotaCountsAlongADimFromItsBegin) {
  Tensors none;
  const Tensors out = run_fast({"iota", {1, 5}, {}, "", {}, {{DType::kI32, {2, 3}}}}, none);
  const auto values = out[0].values<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(values.begin(), values.end()),
            (std::vector<int32_t>{5, 6, 7, 5, 6, 7}));
  Generator generator(2);
  for (int round = 0; round < kRounds; ++round)
    movement_check(generator,
                   {"iota",
                    {random_int(generator, 0, 2), random_int(generator, 0, 50)},
                    {},
                    "",
                    {},
                    {{round % 2 == 0 ? DType::kF32 : DType::kI32, random_shape(generator, 3)}}});
}

TEST(MovementKernels, BroadcastRepeatsMissingDimsAndDimsOfExtentOne) {
  Generator generator(3);
  for (int round = 0; round < kRounds; ++round) {
    const Shape out = random_shape(generator, static_cast<int>(random_int(generator, 0, 4)));
    LocalCall call{"broadcast", {}, {}, "", {{random_dtype(generator), {}}}, {}};
    call.outputs = {{call.inputs[0].dtype, out}};
    for (int dim = 0; dim < out.size(); ++dim) {
      const int64_t how = random_int(generator, 0, 2);  // absent, extent 1, whole
      if (how == 0) continue;
      call.ints.push_back(dim);
      call.inputs[0].shape.push_back(how == 1 ? 1 : out[dim]);
    }
    movement_check(generator, call);
  }
}

TEST(MovementKernels, CopyKeepsTheRowMajorOrder) {
  Generator generator(4);
  for (DType dtype : kTypes) {
    movement_check(generator, {"copy", {}, {}, "", {{dtype, {4, 6}}}, {{dtype, {2, 3, 4}}}});
    movement_check(generator, {"copy", {}, {}, "", {{dtype, {0, 6}}}, {{dtype, {3, 0}}}});
    movement_check(generator, {"copy", {}, {}, "", {{dtype, {1}}}, {{dtype, {}}}});
  }
}

TEST(MovementKernels, TransposeTakesEveryPermutation) {
  Generator generator(5);
  for (int rank = 0; rank <= 4; ++rank) {
    std::vector<int64_t> permutation(static_cast<size_t>(rank));
    std::iota(permutation.begin(), permutation.end(), 0);
    do {
      for (int round = 0; round < 5; ++round) {
        const TensorType in{random_dtype(generator), random_shape(generator, rank)};
        TensorType out{in.dtype, {}};
        for (int64_t from : permutation) out.shape.push_back(in.shape[static_cast<int>(from)]);
        movement_check(generator, {"transpose", permutation, {}, "", {in}, {out}});
      }
    } while (std::next_permutation(permutation.begin(), permutation.end()));
  }
}

TEST(MovementKernels, TransposeOfAMatrixLargerThanABlockReachesEveryElement) {
  Generator generator(6);
  movement_check(
      generator,
      {"transpose", {1, 0}, {}, "", {{DType::kF32, {67, 45}}}, {{DType::kF32, {45, 67}}}});
  movement_check(generator, {"transpose",
                             {2, 0, 1},
                             {},
                             "",
                             {{DType::kF32, {19, 33, 40}}},
                             {{DType::kF32, {40, 19, 33}}}});
}

TEST(MovementKernels, SliceStartsAndStridesInEveryDim) {
  Generator generator(7);
  for (int round = 0; round < kRounds; ++round) {
    const int rank = static_cast<int>(random_int(generator, 0, 4));
    const TensorType in{random_dtype(generator), random_shape(generator, rank)};
    TensorType out{in.dtype, {}};
    std::vector<int64_t> starts, strides;
    for (int dim = 0; dim < rank; ++dim) {
      starts.push_back(random_int(generator, 0, in.shape[dim]));
      strides.push_back(random_int(generator, 1, 3));
      const int64_t longest = (in.shape[dim] - starts.back() + strides.back() - 1) / strides.back();
      out.shape.push_back(random_int(generator, 0, longest));
    }
    starts.insert(starts.end(), strides.begin(), strides.end());
    movement_check(generator, {"slice", starts, {}, "", {in}, {out}});
  }
}

TEST(MovementKernels, PadDropsWhatFallsOutsideTheOutput) {
  Tensors inputs;
  inputs.push_back(Tensor::of<int32_t>({3}, {1, 2, 3}));
  const Tensors out =
      run_fast({"pad", {-1}, {7.0}, "", types_of(inputs), {{DType::kI32, {4}}}}, inputs);
  const auto values = out[0].values<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(values.begin(), values.end()), (std::vector<int32_t>{2, 3, 7, 7}));
  Generator generator(8);
  for (int round = 0; round < kRounds; ++round) {
    const int rank = static_cast<int>(random_int(generator, 0, 3));
    const TensorType in{random_dtype(generator), random_shape(generator, rank)};
    LocalCall call{"pad", {}, {3.0}, "", {in}, {{in.dtype, random_shape(generator, rank)}}};
    for (int dim = 0; dim < rank; ++dim) call.ints.push_back(random_int(generator, -10, 10));
    movement_check(generator, call);
  }
}

TEST(MovementKernels, ConcatJoinsAnyNumberOfPartsAlongAnyDim) {
  Generator generator(9);
  for (int round = 0; round < kRounds; ++round) {
    const int rank = static_cast<int>(random_int(generator, 1, 4));
    const int joined = static_cast<int>(random_int(generator, 0, rank - 1));
    TensorType out{random_dtype(generator), random_shape(generator, rank)};
    out.shape[joined] = 0;
    LocalCall call{"concat", {joined}, {}, "", {}, {}};
    for (int64_t parts = random_int(generator, 1, 4); parts > 0; --parts) {
      TensorType part = out;
      part.shape[joined] = random_int(generator, 0, 5);
      call.inputs.push_back(part);
    }
    for (const TensorType& part : call.inputs) out.shape[joined] += part.shape[joined];
    call.outputs = {out};
    movement_check(generator, call);
  }
}

TEST(MovementKernels, AChunkHasItsPartOfEachBlockAndChunksAreJoinedAgain) {
  Generator generator(11);
  for (int round = 0; round < kRounds; ++round) {
    const int rank = static_cast<int>(random_int(generator, 1, 4));
    const int dim = static_cast<int>(random_int(generator, 0, rank - 1));
    const int64_t blocks = random_int(generator, 1, 3), count = random_int(generator, 1, 4),
                  part = random_int(generator, 1, 3);
    TensorType whole{random_dtype(generator), random_shape(generator, rank)}, chunk = whole;
    chunk.shape[dim] = blocks * part;
    whole.shape[dim] = blocks * part * count;
    movement_check(generator, {"take_chunk",
                               {dim, blocks, random_int(generator, 0, count - 1)},
                               {},
                               "",
                               {whole},
                               {chunk}});
    movement_check(generator, {"join_chunks",
                               {dim, blocks},
                               {},
                               "",
                               std::vector<TensorType>(static_cast<size_t>(count), chunk),
                               {whole}});
  }
}

// Two blocks of 0 1 2 and 3 4 5: chunk 1 of three is 1 4. Joined, the chunks 0 3, 1 4 and 2 5 are
// in order again.
TEST(MovementKernels, ChunksOfTwoBlocks) {
  const TensorType whole{DType::kI32, {6}}, chunk{DType::kI32, {2}};
  Tensors inputs;
  inputs.emplace_back(whole);
  std::iota(inputs[0].values<int32_t>().begin(), inputs[0].values<int32_t>().end(), 0);
  Tensors chunks;
  for (int64_t i = 0; i < 3; ++i)
    chunks.push_back(
        std::move(run_fast({"take_chunk", {0, 2, i}, {}, "", {whole}, {chunk}}, inputs).front()));
  EXPECT_THAT(chunks[1].values<int32_t>(), testing::ElementsAre(1, 4));
  const Tensors joined =
      run_fast({"join_chunks", {0, 2}, {}, "", {chunk, chunk, chunk}, {whole}}, chunks);
  EXPECT_THAT(joined[0].values<int32_t>(), testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(MovementKernels, OperandsThatDoNotFitAreRefusedWhenTheCallIsBound) {
  const TensorType wide{DType::kF32, {2, 3}}, tall{DType::kF32, {3, 2}};
  EXPECT_THROW(bind_kernel({"transpose", {0, 1}, {}, "", {wide}, {tall}}), InternalError);
  EXPECT_THROW(bind_kernel({"transpose", {1, 1}, {}, "", {wide}, {tall}}), InternalError);
  EXPECT_THROW(bind_kernel({"slice", {0, 1, 1, 1}, {}, "", {wide}, {wide}}), InternalError);
  EXPECT_THROW(bind_kernel({"broadcast", {1, 0}, {}, "", {wide}, {tall}}), InternalError);
  EXPECT_THROW(bind_kernel({"concat", {0}, {}, "", {wide, wide}, {wide}}), InternalError);
  EXPECT_THROW(bind_kernel({"copy", {}, {}, "", {wide}, {{DType::kF32, {5}}}}), InternalError);
  EXPECT_THROW(bind_kernel({"take_chunk", {1, 2, 0}, {}, "", {wide}, {{DType::kF32, {2, 1}}}}),
               InternalError);
  EXPECT_THROW(bind_kernel({"take_chunk", {0, 1, 2}, {}, "", {wide}, {{DType::kF32, {1, 3}}}}),
               InternalError);
  EXPECT_THROW(bind_kernel({"join_chunks", {0, 1}, {}, "", {wide, wide}, {wide}}), InternalError);
  EXPECT_THROW(bind_kernel({"iota", {2, 0}, {}, "", {}, {wide}}), InternalError);
}

}  // namespace
}  // namespace tessera
