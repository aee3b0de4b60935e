#include "training/data/npy_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/testing/test_folder.h"
#include "training/data/array_files.h"

namespace tessera {
namespace {

StoredArray written_and_read(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  const TestFolder folder;
  write_file(folder / "a.npy", npy_bytes(values, shape));
  return read_npy(folder / "a.npy");
}

TEST(NpyWriter, WhatItWritesIsReadWithTheSameBits) {
  const std::vector<float> values = {0, -0.0f, 1.0f / 3, -1e-38f, 3e38f, 7};
  const StoredArray array = written_and_read(values, {2, 1, 3});
  EXPECT_EQ(array.type(), StoredType::kF32);
  EXPECT_EQ(array.shape(), (std::vector<int64_t>{2, 1, 3}));
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(array.at(static_cast<int64_t>(i)), values[i]) << i;
}

TEST(NpyWriter, ShapesOfOneDimAndOfNoneElements) {
  EXPECT_EQ(written_and_read({1, 2}, {2}).shape(), (std::vector<int64_t>{2}));
  EXPECT_EQ(written_and_read({}, {0, 5}).shape(), (std::vector<int64_t>{0, 5}));
}

TEST(NpyWriter, TheElementsBeginAtAMultipleOf64AfterTheEndOfALine) {
  for (int64_t extent : {1, 10, 1000, 100000}) {
    const std::string bytes = npy_bytes(std::vector<float>(extent, 1), {extent, 1});
    const size_t begin = bytes.size() - extent * sizeof(float);
    EXPECT_EQ(begin % 64, 0u) << extent;
    EXPECT_EQ(bytes[begin - 1], '\n');
  }
}

}  // namespace
}  // namespace tessera
