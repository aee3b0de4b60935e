#include "base/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace tessera {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ThrowsMessage;

TEST(TensorType, HasAText) {
  EXPECT_EQ(to_text(TensorType{DType::kF32, {8, 16}}), "f32[8,16]");
  EXPECT_EQ(to_text(TensorType{DType::kF32, {}}), "f32[]");
  EXPECT_EQ(to_text(TensorType{DType::kBool, {0}}), "bool[0]");
}

TEST(TensorType, ComesBackFromItsText) {
  for (const DTypeTraits& row : kDTypes)
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{8, 16},
                               Shape{1, 2, 3, 4, 5, 6, 7, 8}, Shape{int64_t{1} << 40}}) {
      const TensorType type{row.dtype, shape};
      EXPECT_EQ(parse_tensor_type(to_text(type)), type);
    }
}

TEST(TensorType, SpacesAfterCommasAreRead) {
  EXPECT_EQ(parse_tensor_type("f32[8, 16,  2]"), (TensorType{DType::kF32, {8, 16, 2}}));
}

TEST(TensorType, RefusesWhatIsNoTensorType) {
  for (const std::string text :
       {"", "f32", "f32[", "f32]", "f32[8", "f32[8,]", "f32[,8]", "f32[8,,2]", "f32[-1]",
        "f32[8;2]", "f32[8 2]", "f32[x]", "f32[8x]", "f32[ ]", "f32[8]x",
        "f32[99999999999999999999]", "f32[1,1,1,1,1,1,1,1,1]"})
    EXPECT_THAT([&] { parse_tensor_type(text); },
                ThrowsMessage<UserError>(
                    "'" + text +
                    "' is not a tensor type\n"
                    "  why: a tensor type is an element type and its extents\n"
                    "  fix: write it as f32[8,16], i32[4] or bool[]; a scalar is f32[]"))
        << text;
  EXPECT_THROW(parse_tensor_type("f80[2]"), UserError);
}

TEST(TensorType, SizeIsElementsTimesTheirSize) {
  EXPECT_EQ(byte_size({DType::kF32, {3, 5}}), Bytes(60));
  EXPECT_EQ(byte_size({DType::kBool, {3, 5}}), Bytes(15));
  EXPECT_EQ(byte_size({DType::kI32, {}}), Bytes(4));
  EXPECT_EQ(byte_size({DType::kI32, {4, 0}}), Bytes(0));
}

TEST(AlignedBuffer, IsAlignedAndZeroed) {
  for (int64_t size : {0, 1, 63, 64, 1000}) {
    AlignedBuffer buffer{Bytes(size)};
    EXPECT_EQ(buffer.size(), Bytes(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kTensorAlignment, 0u);
    EXPECT_THAT(std::span(buffer.data(), static_cast<size_t>(size)), Each(std::byte{0}));
  }
}

TEST(Tensor, IsZeroAtFirst) {
  const Tensor tensor(TensorType{DType::kI32, {2, 3}});
  EXPECT_EQ(tensor.size(), 6);
  EXPECT_THAT(tensor.values<int32_t>(), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(Tensor, HoldsItsValuesRowByRow) {
  const Tensor tensor = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(tensor.dtype(), DType::kF32);
  EXPECT_EQ(tensor.shape(), (Shape{2, 2}));
  EXPECT_THAT(tensor.values<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Tensor::scalar(uint8_t{1}).values<uint8_t>(), ElementsAre(1));
  EXPECT_EQ(Tensor::scalar(7).type(), (TensorType{DType::kI32, {}}));
}

TEST(Tensor, RefusesAnotherElementTypeAndAnotherNumberOfValues) {
  const Tensor tensor = Tensor::of<float>({2}, {1, 2});
  EXPECT_THROW(tensor.values<int32_t>(), InternalError);
  EXPECT_THROW(Tensor::of<float>({3}, {1, 2}), InternalError);
}

TEST(Tensor, HoldsElementsOfEveryType) {
  EXPECT_THAT(Tensor::of<double>({2}, {1, 0x1p-1074}).values<double>(), ElementsAre(1, 0x1p-1074));
  EXPECT_EQ(Tensor::scalar(int64_t{1} << 40).type(), (TensorType{DType::kI64, {}}));
  EXPECT_EQ(Tensor::scalar(int8_t{-1}).type(), (TensorType{DType::kI8, {}}));
  EXPECT_EQ(Tensor::scalar(BFloat16(2)).type(), (TensorType{DType::kBF16, {}}));
  EXPECT_EQ(Tensor::scalar(Float16(2)).values<Float16>()[0].to_double(), 2);
}

TEST(Tensor, U8AndBoolAreBothStoredAsBytes) {
  Tensor tensor(TensorType{DType::kU8, {2}});
  tensor.values<uint8_t>()[1] = 255;
  EXPECT_THAT(tensor.values<uint8_t>(), ElementsAre(0, 255));
  EXPECT_THROW(tensor.values<int8_t>(), InternalError);
}

TEST(Tensor, ACloneHasValuesOfItsOwn) {
  Tensor tensor = Tensor::of<int32_t>({2}, {1, 2});
  Tensor copy = tensor.clone();
  copy.values<int32_t>()[0] = 9;
  EXPECT_THAT(tensor.values<int32_t>(), ElementsAre(1, 2));
  EXPECT_THAT(copy.values<int32_t>(), ElementsAre(9, 2));
  const std::byte* place = copy.data();
  const Tensor moved = std::move(copy);
  EXPECT_EQ(moved.data(), place);
}

TEST(Tensor, ACloneOfATensorWithoutMemoryHasNone) {
  EXPECT_EQ(Tensor().clone().data(), nullptr);
}

}  // namespace
}  // namespace tessera
