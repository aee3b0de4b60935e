#include "frontend/models/internal/placed_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A folder with the tensor "w" of each rank, f32.
class PlacedParts : public testing::Test {
 protected:
  ~PlacedParts() override { std::filesystem::remove_all(folder_); }

  void add(const Shape& shape, const std::vector<float>& values) {
    RealFileSystem disk;
    const auto folder = folder_ / ("rank-" + std::to_string(ranks_++));
    disk.make_folder(folder);
    write_safetensors(
        *disk.create(folder / "weights.safetensors"),
        {{"w", FileDType::kF32, shape, reinterpret_cast<const std::byte*>(values.data())}}, {});
  }
  WholeTensors read(const PlacedTensors& placed) {
    RealFileSystem disk;
    return whole_tensors(disk, folder_, "weights", placed);
  }
  static std::vector<float> values_of(const WholeTensor& tensor) {
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                  (std::string("placed_parts_") +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
  int ranks_ = 0;
};

TEST_F(PlacedParts, OfOneDimAreJoined) {
  // torch.chunk of three rows in two: two rows and one.
  add({2, 2}, {1, 2, 3, 4});
  add({1, 2}, {5, 6});
  const WholeTensors tensors = read({{2}, {{"w", {0}}}});
  EXPECT_EQ(tensors.first.at("w").shape, (Shape{3, 2}));
  EXPECT_THAT(values_of(tensors.first.at("w")), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(tensors.differing, IsEmpty());
}

TEST_F(PlacedParts, OfColumnsAndOfRowsOnTwoAxes) {
  // Rows on the first axis, columns on the second one.
  add({1, 2}, {1, 2});
  add({1, 1}, {3});
  add({1, 2}, {4, 5});
  add({1, 1}, {6});
  EXPECT_THAT(values_of(read({{2, 2}, {{"w", {0, 1}}}}).first.at("w")),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(PlacedParts, OfOneDimOnTwoAxesAreDividedFromTheFirst) {
  // Five in two: 3 and 2. These in two: 2 and 1, 1 and 1.
  add({2}, {1, 2});
  add({1}, {3});
  add({1}, {4});
  add({1}, {5});
  EXPECT_THAT(values_of(read({{2, 2}, {{"w", {0, 0}}}}).first.at("w")), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(PlacedParts, MayBeEmpty) {
  // Five in four: 2, 2, 1 and nothing.
  add({2}, {1, 2});
  add({2}, {3, 4});
  add({1}, {5});
  add({0}, {});
  EXPECT_THAT(values_of(read({{4}, {{"w", {0}}}}).first.at("w")), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(PlacedParts, CopiesThatDifferAreThoseOfTheirRank) {
  add({2}, {1, 2});
  add({2}, {1, 2});
  add({2}, {1, 9});
  const WholeTensors tensors = read({{3}, {}});
  EXPECT_THAT(values_of(tensors.first.at("w")), ElementsAre(1, 2));
  ASSERT_EQ(tensors.differing.size(), 1u);
  EXPECT_THAT(values_of(tensors.differing.at(2).at("w")), ElementsAre(1, 9));
}

TEST_F(PlacedParts, ThatAreNoDivisionAreRefused) {
  add({1}, {1});
  add({3}, {2, 3, 4});
  try {
    read({{2}, {{"w", {0}}}});
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("torch.chunk"));
  }
}

}  // namespace
}  // namespace tessera
