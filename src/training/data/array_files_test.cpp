#include "training/data/array_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/files/file.h"
#include "base/testing/error.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

/// Files of one test, in a folder of its own.
class ArrayFiles : public testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& bytes) {
    const std::string file = folder_ / name;
    write_file(file, bytes);
    return file;
  }
  /// The message with FILE in place of the folder and the name of the file.
  static std::string refusal(const std::string& file, const std::function<void()>& act) {
    std::string message = message_of(ExitCode::kBadData, act);
    for (size_t at = message.find(file); at != std::string::npos; at = message.find(file))
      message.replace(at, file.size(), "FILE");
    return message;
  }

  TestFolder folder_;
};

std::string bytes_of(std::initializer_list<int> values) {
  std::string bytes;
  for (int value : values) bytes += static_cast<char>(value);
  return bytes;
}

template <typename T>
std::string little_endian(std::initializer_list<T> values) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes;
  for (T value : values) {
    char one[sizeof(T)];
    std::memcpy(one, &value, sizeof(T));
    bytes.append(one, sizeof(T));
  }
  return bytes;
}

/// The bytes that numpy.save writes, except for the padding of the header.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                int version = 1, const std::string& order = "False") {
  const std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  const auto length = static_cast<int>(header.size());
  std::string bytes = "\x93NUMPY" + bytes_of({version, 0, length % 256, length / 256});
  if (version == 2) bytes += bytes_of({0, 0});
  return bytes + header + data;
}

std::vector<double> elements(const StoredArray& array) {
  std::vector<double> values;
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(array.at(i));
  return values;
}

// ---- IDX ----

TEST_F(ArrayFiles, IdxOfBytesAndOfBigEndianNumbers) {
  const StoredArray bytes =
      read_idx(written("a", bytes_of({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255})));
  EXPECT_THAT(bytes.shape(), ElementsAre(2, 3));
  EXPECT_THAT(elements(bytes), ElementsAre(1, 2, 3, 4, 5, 255));
  const StoredArray shorts =
      read_idx(written("b", bytes_of({0, 0, 0x0b, 1, 0, 0, 0, 2, 1, 2, 255, 254})));
  EXPECT_THAT(elements(shorts), ElementsAre(258, -2));
  const StoredArray floats =
      read_idx(written("c", bytes_of({0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0})));
  EXPECT_THAT(elements(floats), ElementsAre(1.5));
}

TEST_F(ArrayFiles, IdxThatIsNone) {
  const std::string file = written("a", "PNG and so on");
  EXPECT_EQ(refusal(file, [&] { read_idx(file); }),
            "'FILE' is no IDX file\n"
            "  why: such a file begins with two zero bytes, a type and the number of dims\n"
            "  fix: give a file such as train-images-idx3-ubyte, or compressed by gzip");
  EXPECT_THAT(message_of(ExitCode::kBadData, [&] { read_idx(written("b", "")); }),
              HasSubstr("is no IDX file"));
}

TEST_F(ArrayFiles, IdxOfAnUnknownTypeOrWithoutDims) {
  const std::string file = written("a", bytes_of({0, 0, 0x0a, 1, 0, 0, 0, 0}));
  EXPECT_EQ(refusal(file, [&] { read_idx(file); }),
            "'FILE' has elements of type 0x0a at offset 2\n"
            "  why: IDX has 0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32 and 0x0e f64\n"
            "  fix: give a file such as train-images-idx3-ubyte, or compressed by gzip");
  EXPECT_THAT(
      message_of(ExitCode::kBadData, [&] { read_idx(written("b", bytes_of({0, 0, 8, 0}))); }),
      HasSubstr("has 0 dims at offset 3"));
}

// A file that is cut at any byte or is one byte too long is refused and causes no crash.
TEST_F(ArrayFiles, IdxCutOffAnywhereOrTooLong) {
  const std::string whole = bytes_of({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6});
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string file = written("cut", whole.substr(0, length));
    EXPECT_THROW(read_idx(file), UserError) << length;
  }
  const std::string header = written("a", whole.substr(0, 9));
  EXPECT_EQ(refusal(header, [&] { read_idx(header); }),
            "'FILE' is cut off within its header\n"
            "  why: the extents of 2 dims end at offset 12; the file has 9 bytes\n"
            "  fix: copy or download the file again");
  const std::string data = written("b", whole.substr(0, 16));
  EXPECT_EQ(
      refusal(data, [&] { read_idx(data); }),
      "'FILE' is cut off\n"
      "  why: its header, up to offset 12, says u8[2,3], which is 6 bytes more; the file has 4\n"
      "  fix: copy or download the file again");
  const std::string longer = written("c", whole + "x");
  EXPECT_THAT(refusal(longer, [&] { read_idx(longer); }),
              HasSubstr("'FILE' goes on after its end"));
}

TEST_F(ArrayFiles, IdxWithExtentsBeyondAllMemory) {
  const std::string file = written(
      "a", bytes_of({0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}));
  EXPECT_THAT(refusal(file, [&] { read_idx(file); }),
              HasSubstr("'FILE' says that it is too large to be read"));
}

// ---- .npy ----

TEST_F(ArrayFiles, NpyOfEveryTypeAndBothVersions) {
  const StoredArray floats =
      read_npy(written("a", npy("<f4", "(2, 2)", little_endian<float>({1, -2, 0.5f, 3}))));
  EXPECT_THAT(floats.shape(), ElementsAre(2, 2));
  EXPECT_THAT(elements(floats), ElementsAre(1, -2, 0.5, 3));
  EXPECT_THAT(elements(read_npy(written("b", npy("<f8", "(1,)", little_endian<double>({0.1}), 2)))),
              ElementsAre(0.1));
  EXPECT_THAT(
      elements(read_npy(written("c", npy("<i4", "(2,)", little_endian<int32_t>({-7, 1 << 30}))))),
      ElementsAre(-7, 1 << 30));
  EXPECT_THAT(
      elements(read_npy(written("d", npy("<i8", "(1,)", little_endian<int64_t>({1LL << 40}))))),
      ElementsAre(1LL << 40));
  EXPECT_THAT(elements(read_npy(written("e", npy("|u1", "(3,)", bytes_of({0, 1, 255}))))),
              ElementsAre(0, 1, 255));
  EXPECT_THAT(elements(read_npy(written("g", npy("|i1", "(2,)", bytes_of({127, 255}))))),
              ElementsAre(127, -1));
  EXPECT_THAT(
      elements(read_npy(written("h", npy("<i2", "(2,)", little_endian<int16_t>({-2, 258}))))),
      ElementsAre(-2, 258));
  EXPECT_THAT(
      elements(read_npy(written("i", npy("<u2", "(2,)", little_endian<uint16_t>({50256, 1}))))),
      ElementsAre(50256, 1));
  EXPECT_THAT(
      elements(read_npy(written("j", npy("<u4", "(1,)", little_endian<uint32_t>({4000000000u}))))),
      ElementsAre(4000000000.0));
  // 1.5 is 0x3e00, and 2^-24 the smallest number, 0x0001.
  EXPECT_THAT(
      elements(read_npy(written("k", npy("<f2", "(2,)", little_endian<uint16_t>({0x3e00, 1}))))),
      ElementsAre(1.5, 0x1p-24));
  EXPECT_THAT(read_npy(written("f", npy("<f4", "()", little_endian<float>({4})))).shape(),
              ElementsAre());
}

TEST_F(ArrayFiles, NpyThatIsNotRead) {
  const std::string other = written("a", "PK zip");
  EXPECT_EQ(refusal(other, [&] { read_npy(other); }),
            "'FILE' is no .npy file\n"
            "  why: such a file begins with the bytes 93 4e 55 4d 50 59\n"
            "  fix: write the array with numpy.save");
  const std::string big = written("b", npy(">f4", "(1,)", "abcd"));
  EXPECT_EQ(refusal(big, [&] { read_npy(big); }),
            "'FILE' has elements of type '>f4'\n"
            "  why: little-endian '<f2', '<f4', '<f8', '|i1', '<i2', '<i4', '<i8', '|u1', '<u2' "
            "and '<u4' are read\n"
            "  fix: convert the array with numpy's astype and save it again");
  const std::string fortran = written("c", npy("<f4", "(1,)", "abcd", 1, "True"));
  EXPECT_THAT(refusal(fortran, [&] { read_npy(fortran); }),
              HasSubstr("'FILE' has its elements in Fortran order"));
  const std::string version = written("d", npy("<f4", "(1,)", "abcd", 3));
  EXPECT_THAT(refusal(version, [&] { read_npy(version); }),
              HasSubstr("'FILE' has version 3 at offset 6"));
  for (const std::string shape : {"(-1,)", "(a,)", "3", "(99999999999999999999,)"})
    EXPECT_THROW(read_npy(written("e", npy("<f4", shape, "abcd"))), UserError) << shape;
  const std::string large = written("f", npy("<f8", "(999999999999, 999999999999)", ""));
  EXPECT_THAT(refusal(large, [&] { read_npy(large); }), HasSubstr("too large"));
}

TEST_F(ArrayFiles, NpyCutOffAnywhere) {
  const std::string whole = npy("<f4", "(2,)", "abcdefgh");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(read_npy(written("cut", whole.substr(0, length))), UserError) << length;
  const std::string file = written("a", whole.substr(0, 30));
  EXPECT_THAT(refusal(file, [&] { read_npy(file); }),
              HasSubstr("'FILE' is cut off within its header"));
}

// ---- CIFAR ----

std::string cifar_record(int labels, int label, int pixel) {
  return std::string(static_cast<size_t>(labels - 1), '\x09') + static_cast<char>(label) +
         std::string(3072, static_cast<char>(pixel));
}

TEST_F(ArrayFiles, CifarOfBothKinds) {
  const LabelledArrays ten =
      read_cifar({written("a", cifar_record(1, 3, 10) + cifar_record(1, 4, 20)),
                  written("b", cifar_record(1, 5, 30))},
                 10);
  EXPECT_THAT(ten.images.shape(), ElementsAre(3, 3, 32, 32));
  EXPECT_THAT(elements(ten.labels), ElementsAre(3, 4, 5));
  EXPECT_EQ(ten.images.at(3072), 20);
  const LabelledArrays hundred = read_cifar({written("c", cifar_record(2, 77, 1))}, 100);
  EXPECT_THAT(elements(hundred.labels), ElementsAre(77));  // the fine one
}

TEST_F(ArrayFiles, CifarOfTheWrongKindOrCutOff) {
  const std::string file = written("a", cifar_record(1, 3, 10) + "xx");
  EXPECT_EQ(refusal(file, [&] { read_cifar({file}, 10); }),
            "'FILE' ends within the record at offset 3073\n"
            "  why: a record of CIFAR-10 is 3073 bytes, 1 of the label and 3072 of the image; the "
            "file has 3075 bytes\n"
            "  fix: give the files of the binary version, or set data.classes to the other kind, "
            "10 or 100");
  EXPECT_THAT(message_of(ExitCode::kBadData, [&] { read_cifar({written("b", "")}, 10); }),
              HasSubstr("is empty"));
}

// ---- samples ----

StoredArray array(const std::string& file, const std::vector<int64_t>& shape,
                  const std::string& bytes) {
  return {file, bytes, 0, StoredType::kU8, false, shape};
}

TEST(ArrayImages, BytesBecomeFractionsAndGreyImagesGetAChannel) {
  const ArrayImages data(
      {array("x", {2, 1, 2}, bytes_of({0, 255, 51, 102})), array("y", {2}, bytes_of({1, 4}))}, 0);
  EXPECT_EQ(data.fields()[0].type, (TensorType{DType::kF32, {1, 1, 2}}));
  EXPECT_EQ(data.classes(), 5);  // the largest label and one
  Batch batch;
  batch.resize(data.fields(), 1);
  data.write(1, 0, batch);
  EXPECT_THAT(batch.at("images").values<float>(),
              ElementsAre(51 * (1.0f / 255), 102 * (1.0f / 255)));
  EXPECT_THAT(batch.at("labels").values<int32_t>(), ElementsAre(4));
}

TEST(ArrayImages, WholeNumbersThatAreNotScaledAreRefused) {
  const auto images_of = [](StoredType type, const std::string& bytes) {
    const int64_t pixels = std::ssize(bytes) / size_of(type);
    const StoredArray images("x", std::string(128, 0) + bytes, 128, type, false, {1, 1, pixels});
    return ArrayImages({images, array("y", {1}, bytes_of({0}))}, 2);
  };
  const std::string scaled = bytes_of({0, 0, 0, 0, 1, 0, 0, 0}), wide = bytes_of({255, 0, 0, 0});
  EXPECT_NO_THROW(images_of(StoredType::kI32, scaled));
  EXPECT_NO_THROW(images_of(StoredType::kU8, bytes_of({0, 255})));
  EXPECT_EQ(message_of([&] { images_of(StoredType::kI32, scaled + wide); }),
            "65 'x' has the pixel 255 at index [0,0,2] and is of i32\n"
            "  why: only u1 is scaled from 0 to 255 to 0 to 1; other whole numbers stay as they "
            "are, and must be within -1 and 1\n"
            "  fix: save the images as u1, or as f4 with the numbers that the model is to see");
  EXPECT_THROW(images_of(StoredType::kI64, bytes_of({2, 0, 0, 0, 0, 0, 0, 0})), UserError);
}

TEST(ArrayImages, ALabelAPixel) {
  const ArrayImages data(
      {array("x", {1, 2, 1, 2}, "abcd"), array("y", {1, 1, 2}, bytes_of({0, 2}))}, 3);
  EXPECT_EQ(data.fields()[1].type, (TensorType{DType::kI32, {1, 2}}));
}

/// A sample of 2 x 3 positions and two channels in both layouts.
TEST(ArrayImages, ChannelsLastAreTheImageOfChannelsFirst) {
  const std::string first = bytes_of({1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
  const std::string last = bytes_of({1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16});
  const ArrayImages a({array("x", {1, 2, 2, 3}, first), array("y", {1}, bytes_of({0}))}, 2);
  const ArrayImages b({array("x", {1, 2, 3, 2}, last), array("y", {1}, bytes_of({0}))}, 2,
                      ImageLayout::kChannelsLast);
  ASSERT_EQ(a.fields(), b.fields());
  Batch one, other;
  for (Batch* batch : {&one, &other}) batch->resize(a.fields(), 1);
  a.write(0, 0, one);
  b.write(0, 0, other);
  EXPECT_TRUE(
      std::ranges::equal(one.at("images").values<float>(), other.at("images").values<float>()));
}

TEST(ArrayImages, ALabelAPixelFollowsTheLayout) {
  const ArrayImages data(
      {array("x", {1, 1, 2, 3}, "abcdef"), array("y", {1, 1, 2}, bytes_of({0, 2}))}, 3,
      ImageLayout::kChannelsLast);
  EXPECT_EQ(data.fields()[0].type, (TensorType{DType::kF32, {3, 1, 2}}));
  EXPECT_EQ(data.fields()[1].type, (TensorType{DType::kI32, {1, 2}}));
}

TEST(ArrayImages, ALayoutThatIsNotClearMustBeSaid) {
  const auto images = [](const std::vector<int64_t>& shape, ImageLayout layout) {
    const int64_t bytes = shape[0] * shape[1] * shape[2] * shape[3];
    return ArrayImages({array("x", shape, std::string(bytes, 'a')),
                        array("y", {shape[0]}, std::string(shape[0], '\0'))},
                       2, layout);
  };
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { images({2, 20, 20, 3}, ImageLayout::kUnknown); }),
            "the layout of the images is not clear: 'x' u8[2,20,20,3]\n"
            "  why: as [N,C,H,W] they have 20 channels of 20 x 3, as [N,H,W,C] 3 of 20 x 20\n"
            "  fix: set data.layout = \"nhwc\", or \"nchw\"");
  EXPECT_THAT(
      message_of(ExitCode::kBadData, [&] { images({1, 28, 28, 1}, ImageLayout::kUnknown); }),
      HasSubstr("not clear"));
  EXPECT_EQ(images({2, 20, 20, 3}, ImageLayout::kChannelsLast).fields()[0].type.shape,
            (Shape{3, 20, 20}));
  EXPECT_EQ(images({2, 20, 20, 3}, ImageLayout::kChannelsFirst).fields()[0].type.shape,
            (Shape{20, 20, 3}));
  EXPECT_EQ(images({2, 3, 20, 20}, ImageLayout::kUnknown).fields()[0].type.shape,
            (Shape{3, 20, 20}));
  EXPECT_EQ(images({2, 3, 3, 3}, ImageLayout::kUnknown).fields()[0].type.shape, (Shape{3, 3, 3}));
}

TEST(ArrayImages, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(
      message_of(ExitCode::kBadData,
                 [] { ArrayImages({array("x", {2, 1, 1}, "ab"), array("y", {3}, "abc")}, 0); }),
      "the labels do not fit the images: 'x' u8[2,1,1] and 'y' u8[3]\n"
      "  why: images and labels must have the same length, of at least 1\n"
      "  fix: give the two files of one data set");
  EXPECT_EQ(
      message_of(
          ExitCode::kBadData,
          [] { ArrayImages({array("x", {2, 1, 1}, "ab"), array("y", {2}, bytes_of({1, 7}))}, 5); }),
      "'y' has the label 7 at index 1\n"
      "  why: a label is at least 0 and below 5\n"
      "  fix: set data.classes to the number of classes, data.ignore_label to a label that is not "
      "counted, or correct the file");
  EXPECT_THAT(message_of(ExitCode::kBadData,
                         [] { ArrayImages({array("x", {2}, "ab"), array("y", {2}, "ab")}, 0); }),
              HasSubstr("no images"));
}

TEST(ArrayImages, NumbersThatAreNotFiniteAreRefusedWithTheirPlace) {
  const auto images_of = [](StoredType type, const std::string& bytes) {
    const int64_t pixels = std::ssize(bytes) / size_of(type) / 2;
    return ImageRows({"x", bytes, 0, type, false, {2, 1, pixels}});
  };
  EXPECT_EQ(message_of([&] {
              images_of(StoredType::kF32, little_endian<float>({0, 1, 2, std::nanf("")}));
            }),
            "65 'x' has the number nan at index [1,0,1]\n"
            "  why: the numbers of samples are finite in f32\n"
            "  fix: look for the step of the preparation that makes such numbers, and save the "
            "array again");
  EXPECT_THAT(message_of([&] { images_of(StoredType::kF64, little_endian<double>({1e300, 0})); }),
              HasSubstr("65 'x' has the number 1e+300 at index [0,0,0]"));
  EXPECT_THAT(
      message_of([&] { images_of(StoredType::kF16, little_endian<uint16_t>({0, 0xfc00})); }),
      HasSubstr("65 'x' has the number -inf at index [1,0,0]"));
  EXPECT_NO_THROW(images_of(StoredType::kF32, little_endian<float>({3e38f, -1})));
}

/// The labels of a batch that has all samples.
std::vector<int32_t> labels_in(const Dataset& data) {
  Batch batch;
  batch.resize(data.fields(), data.samples());
  for (int64_t sample = 0; sample < data.samples(); ++sample) data.write(sample, sample, batch);
  const auto labels = batch.at("labels").values<int32_t>();
  return {labels.begin(), labels.end()};
}

TEST(ArrayImages, IgnoredLabelsAreNotCounted) {
  const auto data = [](std::initializer_list<int> labels, int64_t ignore) {
    const StoredArray y("y", bytes_of(labels), 0, ignore == 255 ? StoredType::kU8 : StoredType::kI8,
                        false, {std::ssize(labels)});
    return ArrayImages({array("x", {std::ssize(labels), 1, 1}, std::string(labels.size(), 'a')), y},
                       0, ImageLayout::kUnknown, ignore);
  };
  EXPECT_THAT(labels_in(data({2, -1, 0}, -1)), ElementsAre(2, -1, 0));
  EXPECT_THAT(labels_in(data({2, -100, -1}, -100)), ElementsAre(2, -1, -1));
  EXPECT_THAT(labels_in(data({3, 255, 0}, 255)), ElementsAre(3, -1, 0));
  EXPECT_EQ(data({3, 255, 0}, 255).classes(), 4);
  EXPECT_NE(data({3, -100}, -100).fingerprint(), data({3, -1}, -1).fingerprint());
  EXPECT_THAT(message_of([&] { data({1, -100}, -1); }),
              HasSubstr("65 'y' has the label -100 at index 1"));
  EXPECT_THAT(message_of([&] { data({-1, -1}, -1); }),
              HasSubstr("65 'y' has no label that is counted"));
}

TEST_F(ArrayFiles, LinesOfTokensWithLabelsOrMasks) {
  const std::string file = written(
      "a",
      "[1, 2]\n{\"tokens\": [3, 4], \"labels\": [-1, 7]}\n{\"tokens\": [5], \"mask\": [0]}\n"
      "{\"tokens\": [6, 7], \"mask\": [true, 1]}\n{\"tokens\": [8], \"labels\": [-100]}\n[9]");
  const LabelledTokens all = read_token_lines({file}, 0, -100);
  EXPECT_THAT(all.tokens, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(all.targets, ElementsAre(1, 2, -1, 7, -1, 6, 7, -1, 9));
  for (const auto& [line, why] :
       {std::pair("{\"tokens\": [1, 2], \"labels\": [1]}", "'labels' is no list of 2"),
        {"{\"tokens\": [1], \"mask\": [2]}", "an element of 'mask' is 0 or 1"},
        {"{\"tokens\": [1], \"mask\": [1], \"labels\": [1]}", "both 'labels' and 'mask'"},
        {"{\"tokens\": [1], \"labels\": [-2]}", "has the label -2"}})
    EXPECT_THAT(message_of(ExitCode::kBadData, [&] { read_token_lines({written("b", line)}, 0); }),
                HasSubstr(why));
}

TEST_F(ArrayFiles, LinesOfTokens) {
  const std::string file = written("a", "[1, 2]\n\n{\"tokens\": [3], \"id\": \"x\"}\n[]\n[4]");
  const LabelledTokens all = read_token_lines({file, written("b", "[5]\n")}, 0);
  EXPECT_THAT(all.tokens, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(all.targets, ElementsAre());
}

TEST_F(ArrayFiles, LinesThatAreNoTokensAreNamed) {
  const std::string list = written("a", "[1]\n{\"text\": \"a\"}\n");
  EXPECT_EQ(refusal(list, [&] { read_token_lines({list}, 0); }),
            "'FILE' line 2 is no line of tokens\n"
            "  why: it is neither a list nor a table with a list 'tokens'\n"
            "  fix: write {\"tokens\": [1, 2, 3]} or [1, 2, 3] on a line of its own, or "
            "{\"tokens\": [1, 2], \"labels\": [-1, 2]}");
  const std::string large = written("b", "[1, 9]\n");
  EXPECT_EQ(refusal(large, [&] { read_token_lines({large}, 8); }),
            "'FILE' line 1 has the token 9\n"
            "  why: a token is at least 0 and below 8\n"
            "  fix: set data.vocabulary to the number of different tokens, or correct the file");
  for (const std::string line : {"[1, 2", "[1.5]", "[\"a\"]", "7", "{\"tokens\": 3}", "[-1]"})
    EXPECT_THROW(read_token_lines({written("c", line)}, 0), UserError) << line;
}

TEST_F(ArrayFiles, TokensOfAnArray) {
  EXPECT_THAT(
      tokens_of(read_npy(written("a", npy("<i8", "(2, 2)", little_endian<int64_t>({1, 2, 3, 4})))),
                5),
      ElementsAre(1, 2, 3, 4));
  const std::string file = written("b", npy("<i4", "(2,)", little_endian<int32_t>({1, -3})));
  EXPECT_THAT(refusal(file, [&] { tokens_of(read_npy(file), 0); }),
              HasSubstr("'FILE' has the token -3 at index 1"));
  const std::string floats = written("c", npy("<f4", "(1,)", "abcd"));
  EXPECT_THAT(refusal(floats, [&] { tokens_of(read_npy(floats), 0); }),
              HasSubstr("'FILE' holds no tokens"));
}

}  // namespace
}  // namespace tessera
