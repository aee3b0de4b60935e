#include "training/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "training/checkpoint/testing/simulated_disk.h"

namespace tessera {
namespace {

using testing::ElementsAre;

/// The length of a header as its eight bytes, then the header.
std::string with_length(const std::string& header) {
  std::string text;
  for (size_t byte = 0; byte < 8; ++byte)
    text += static_cast<char>((header.size() >> (8 * byte)) & 0xff);
  return text + header;
}

std::string written(std::vector<TensorToWrite> tensors, const FileMetadata& metadata = {}) {
  SimulatedDisk disk;
  write_safetensors(*disk.create("t.safetensors"), std::move(tensors), metadata);
  return read_whole(disk, "t.safetensors");
}

std::vector<std::string> names_of(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const FileTensor& tensor : file.header().tensors) names.push_back(tensor.name);
  return names;
}

/// The message of the error for a file with this content, with its exit code.
std::string message_of(const std::string& content) {
  SimulatedDisk disk;
  write_synced(disk, "t.safetensors", content);
  try {
    SafetensorsFile(disk, "t.safetensors");
  } catch (const UserError& error) {
    return std::to_string(static_cast<int>(error.exit_code())) + " " + error.what();
  }
  return "no error";
}

/// The message for a file with this header and this number of data bytes.
std::string message_of_header(const std::string& header, size_t data) {
  return message_of(with_length(header) + std::string(data, 'd'));
}

const std::string kAgain =
    "\n  fix: fetch the file again, or write it again with a tool that keeps to the format";
const std::string kRewrite = "\n  fix: write the file again with a tool that keeps to the format";

TEST(Safetensors, AnEmptyFileIsSixteenBytes) {
  EXPECT_EQ(written({}), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(Safetensors, AHandWrittenFileByteByByte) {
  const std::vector<float> weight{1.0F, -2.0F};
  const std::vector<uint8_t> mask{1, 0, 1};
  // 142 letters and 2 spaces are 144 = 0x90 bytes, a multiple of eight.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]}}  )";
  // 1.0 = 0x3f800000, -2.0 = 0xc0000000, little endian.
  const std::string data = std::string("\0\0\x80\x3f\0\0\0\xc0", 8) + std::string("\1\0\1", 3);
  EXPECT_EQ(
      written({{"a", FileDType::kBool, {3}, reinterpret_cast<const std::byte*>(mask.data())},
               {"w", FileDType::kF32, {1, 2}, reinterpret_cast<const std::byte*>(weight.data())}},
              {{"format", "pt"}}),
      std::string("\x90\0\0\0\0\0\0\0", 8) + header + data);
}

TEST(Safetensors, LargerElementsStandFirstThenNamesAreSorted) {
  const std::vector<std::byte> zeros(8);
  SimulatedDisk disk;
  write_synced(disk, "t",
               written({{"b", FileDType::kBF16, {1}, zeros.data()},
                        {"z", FileDType::kF32, {}, zeros.data()},
                        {"c", FileDType::kU8, {1}, zeros.data()},
                        {"a", FileDType::kI32, {1}, zeros.data()},
                        {"k", FileDType::kI64, {1}, zeros.data()}}));
  EXPECT_THAT(names_of(SafetensorsFile(disk, "t")), ElementsAre("k", "a", "z", "b", "c"));
}

TEST(Safetensors, TensorsAndByteRangesComeBack) {
  const Tensor values = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
               count = Tensor::scalar<int32_t>(-7), none = Tensor({DType::kF32, {0, 4}});
  SimulatedDisk disk;
  write_synced(disk, "t",
               written({{"values", FileDType::kF32, {2, 3}, values.data()},
                        {"count", FileDType::kI32, {}, count.data()},
                        {"none", FileDType::kF32, {0, 4}, nullptr}}));
  disk.limit_transfers(5);
  const SafetensorsFile file(disk, "t");
  EXPECT_THAT(file.read("values").values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file.read("count").values<int32_t>(), ElementsAre(-7));
  EXPECT_EQ(file.read("none").type(), (TensorType{DType::kF32, {0, 4}}));
  std::vector<float> middle(2);
  file.read(file.tensor("values"), 8, std::as_writable_bytes(std::span(middle)));
  EXPECT_THAT(middle, ElementsAre(3, 4));
}

TEST(Safetensors, TensorsInAnyOrderWithoutPaddingAreRead) {
  SimulatedDisk disk;
  // As some other programs write it: not sorted, a header that is not a multiple of eight, an empty
  // tensor between two others.
  const std::string header =
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"e":{"shape":[0],"dtype":"F32",)"
      R"("data_offsets":[1,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})";
  write_synced(disk, "t", with_length(header) + "xyz");
  EXPECT_THAT(names_of(SafetensorsFile(disk, "t")), ElementsAre("a", "e", "b"));
}

TEST(Safetensors, EveryElementTypeHasItsNameAndSize) {
  for (const auto& [name, bits] : std::vector<std::pair<std::string, int>>{
           {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
           {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
           {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
           {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}) {
    ASSERT_TRUE(find_file_dtype(name).has_value()) << name;
    EXPECT_EQ(bits_of(*find_file_dtype(name)), bits) << name;
    EXPECT_EQ(to_text(*find_file_dtype(name)), name);
  }
  for (const DTypeTraits& row : kDTypes) {
    EXPECT_EQ(to_dtype(to_file_dtype(row.dtype)), row.dtype);
    EXPECT_EQ(bits_of(to_file_dtype(row.dtype)), 8 * row.size);
  }
  EXPECT_EQ(to_dtype(FileDType::kC64), std::nullopt);
}

TEST(Safetensors, TensorsOfEveryElementTypeComeBackWithTheSameBytes) {
  for (const DTypeTraits& row : kDTypes) {
    std::string bytes;  // of three elements: 1, 2, 3, ..., all different
    for (int64_t i = 0; i < 3 * row.size; ++i) bytes += static_cast<char>(i + 1);
    SimulatedDisk disk;
    write_safetensors(
        *disk.create("t.safetensors"),
        {{"t", to_file_dtype(row.dtype), {3}, reinterpret_cast<const std::byte*>(bytes.data())}},
        {});
    const SafetensorsFile file(disk, "t.safetensors");
    EXPECT_EQ(to_text(file.tensor("t").dtype), row.safetensors);
    const Tensor read = file.read("t");
    EXPECT_EQ(read.type(), (TensorType{row.dtype, {3}})) << row.text;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(read.data()), bytes.size()), bytes)
        << row.text;
  }
}

TEST(Safetensors, AnElementTypeThatWeDoNotHaveIsRefusedOnlyWhenItIsRead) {
  SimulatedDisk disk;
  write_synced(disk, "t",
               with_length(R"({"h":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})") + "data");
  const SafetensorsFile file(disk, "t");
  EXPECT_EQ(file.tensor("h").dtype, FileDType::kI16);
  EXPECT_THAT(
      [&] { file.read("h"); },
      testing::Throws<UserError>(testing::Property(
          &UserError::what,
          testing::StrEq(
              "'t': tensor 'h' is of I16\n"
              "  why: tensors in memory are of F32, I32, BOOL, F64, I64, I8, U8, F16 or BF16\n"
              "  fix: convert the tensor to one of these"))));
  EXPECT_THAT(
      [&] { file.tensor("g.weight"); },
      testing::Throws<UserError>(testing::Property(
          &UserError::what,
          testing::StrEq(
              "'t' has no tensor 'g.weight'\n  why: none of its tensors has a similar name\n"
              "  fix: check that the file belongs to this model"))));
}

TEST(Safetensors, HeadersThatAreNoneAreRefused) {
  EXPECT_EQ(message_of("abc"),
            "65 't.safetensors' is no safetensors file\n  why: it has 3 bytes, and the length of "
            "the header alone takes 8" +
                kAgain);
  EXPECT_EQ(message_of(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)),  // 100000001
            "65 't.safetensors' is no safetensors file\n  why: its header would have 100000001 "
            "bytes, and at most 100000000 are allowed" +
                kAgain);
  EXPECT_EQ(message_of(std::string(8, '\xff')),
            "65 't.safetensors' is no safetensors file\n  why: its header would have "
            "18446744073709551615 bytes, and at most 100000000 are "
            "allowed" +
                kAgain);
  EXPECT_EQ(message_of(std::string("\x08\0\0\0\0\0\0\0{}   ", 13)),
            "65 't.safetensors' is cut off\n  why: its header takes bytes 8 to 16, and the file "
            "has 13 bytes" +
                kAgain);
  EXPECT_EQ(message_of_header("[]      ", 0),
            "65 't.safetensors' is no safetensors file\n  why: its header does not start with '{'" +
                kAgain);
  EXPECT_EQ(message_of_header("", 0),
            "65 't.safetensors' is no safetensors file\n  why: its header does not start with '{'" +
                kAgain);
}

TEST(Safetensors, HeadersThatAreNoJsonAreRefused) {
  EXPECT_THAT(message_of_header("{\"a\":", 0),
              testing::StartsWith("65 t.safetensors:1:6: this is not JSON\n  why: "));
  EXPECT_THAT(message_of_header("{\"\xff\":1}", 0),
              testing::StartsWith("65 t.safetensors:1:3: this is not JSON\n  why: "));
  EXPECT_EQ(
      message_of_header(std::string("{}\0 {", 5), 0),
      "65 't.safetensors' holds no valid JSON\n  why: it has a zero byte at byte 2 of the JSON" +
          kRewrite);
  EXPECT_THAT(message_of_header("{\"a\":" + std::string(5000, '['), 0),
              testing::StartsWith("65 t.safetensors:1:5006: this is not JSON"));
}

TEST(Safetensors, NamesGivenTwiceAreRefused) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(
      message_of_header("{\"a\":" + entry + ",\"a\":" + entry + "}", 1),
      "65 't.safetensors' gives the key 'a' twice\n  why: it is unknown which of the two counts" +
          kRewrite);
  EXPECT_EQ(
      message_of_header("{\"ab\":" + entry + R"(,"\u0061b":)" + entry + "}", 1),
      "65 't.safetensors' gives the key 'ab' twice\n  why: it is unknown which of the two counts" +
          kRewrite);
  EXPECT_EQ(
      message_of_header(R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1),
      "65 't.safetensors' gives the key 'shape' twice\n  why: it is unknown which of the two "
      "counts" +
          kRewrite);
  // The same key in two tables is no duplicate, nor are keys in quotes inside of strings.
  EXPECT_EQ(
      message_of_header(R"({"__metadata__":{"a":"\"a\":1","b":"}{"},"a":{"dtype":"U8","shape":[1],)"
                        R"("data_offsets":[0,1]}})",
                        1),
      "no error");
}

TEST(Safetensors, MalformedEntriesAreRefused) {
  EXPECT_EQ(message_of_header(R"({"a":3})", 0),
            "65 't.safetensors': tensor 'a' is an integer\n  why: it must be a table" + kRewrite);
  EXPECT_EQ(message_of_header(R"({"a":{"dtype":"U8","shape":[1]}})", 1),
            "65 't.safetensors': tensor 'a' has no data_offsets\n  why: the format requires it" +
                kRewrite);
  EXPECT_EQ(message_of_header(
                R"({"a":{"dtype":"U8","shape":[1],"data_offset":[0,1],"data_offsets":[0,1]}})", 1),
            "65 't.safetensors': tensor 'a' has the unknown key data_offset\n  why: its keys are "
            "data_offsets, dtype, shape\n"
            "  fix: write data_offsets, if that is what it means");
  EXPECT_EQ(
      message_of_header(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1),
      "65 't.safetensors': tensor 'a' has dtype = 8\n  why: dtype must be a string" + kRewrite);
  EXPECT_EQ(message_of_header(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
            "65 't.safetensors': tensor 'a' has shape = [-1]\n  why: shape must be a list of "
            "integers of 0 or more" +
                kRewrite);
  EXPECT_EQ(message_of_header(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1),
            "65 't.safetensors': tensor 'a' has shape = [1.0]\n  why: shape must be a list of "
            "integers of 0 or more" +
                kRewrite);
  EXPECT_EQ(message_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1),
            "65 't.safetensors': tensor 'a' has data_offsets = [0]\n  why: they must be a begin "
            "and an end not before it" +
                kAgain);
  EXPECT_EQ(message_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1),
            "65 't.safetensors': tensor 'a' has data_offsets = [1,0]\n  why: they must be a begin "
            "and an end not before it" +
                kAgain);
  EXPECT_EQ(message_of_header(
                R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
            "65 't.safetensors': tensor 'a' has 9 dims\n  why: at most 8 are supported\n  fix: "
            "reshape the tensor before it is saved");
  EXPECT_EQ(
      message_of_header(R"({"__metadata__":{"epoch":3}})", 0),
      "65 't.safetensors': __metadata__ has epoch = 3\n  why: its values must be strings" + kAgain);
  EXPECT_EQ(message_of_header(R"({"__metadata__":"pt"})", 0),
            "65 't.safetensors': __metadata__ is a string\n  why: it must be a table" + kRewrite);
}

TEST(Safetensors, UnknownElementTypesAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(
      message_of_header(R"({"blocks.0.w":{"dtype":"F12","shape":[1],"data_offsets":[0,1]}})", 1),
      "65 't.safetensors': tensor 'blocks.0.w' has the unknown element type 'F12'\n"
      "  why: those of the format are BOOL, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E5M2, F8_E4M3, "
      "F8_E8M0, I16, U16, F16, BF16, I32, U32, F32, "
      "C64, F64, I64, U64\n"
      "  fix: convert the tensor to one of them");
}

TEST(Safetensors, SizesThatDoNotFitTheShapeAreRefused) {
  EXPECT_EQ(message_of_header(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})",
                              20),  // 2 * 3 * 4 = 24
            "65 't.safetensors': tensor 'a' has 20 bytes\n  why: F32[2,3] takes 24" + kAgain);
  // 2^31 * 2^31 * 4 bytes = 2^64, which wraps to 0, so a careless reader would take the tensor for
  // empty.
  EXPECT_EQ(message_of_header(
                R"({"a":{"dtype":"F32","shape":[2147483648,2147483648],"data_offsets":[0,0]}})", 0),
            "65 't.safetensors': tensor 'a' has 0 bytes\n  why: F32[2147483648,2147483648] takes "
            "no whole number of bytes, or 2^60 and more" +
                kAgain);
  EXPECT_EQ(
      message_of_header(
          R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,8],"data_offsets":[0,0]}})", 0),
      "65 't.safetensors': tensor 'a' has 0 bytes\n  why: F32[0,4611686018427387904,8] takes no "
      "whole number of bytes, or 2^60 and more" +
          kAgain);
  // 12 bits.
  EXPECT_EQ(
      message_of_header(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1),
      "65 't.safetensors': tensor 'a' has 1 bytes\n  why: F4[3] takes no whole number of bytes, or "
      "2^60 and more" +
          kAgain);
  EXPECT_EQ(message_of_header(R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2),
            "no error");
  EXPECT_EQ(message_of_header(
                R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", 1),
            "65 't.safetensors': tensor 'a' has shape = [1e+20]\n  why: shape must be a list of "
            "integers of 0 or more" +
                kRewrite);
}

std::string two_tensors(const std::string& first, const std::string& second) {
  return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
}

TEST(Safetensors, HolesAndOverlapsAreRefused) {
  EXPECT_EQ(message_of_header(two_tensors("[0,4]", "[4,8]"), 8), "no error");
  EXPECT_EQ(message_of_header(two_tensors("[0,4]", "[5,9]"), 9),
            "65 't.safetensors': tensor 'b' does not follow on tensor 'a'\n"
            "  why: it begins at byte 5 of the data, and must begin at 4" +
                kAgain);
  EXPECT_EQ(message_of_header(two_tensors("[3,7]", "[0,4]"), 7),
            "65 't.safetensors': tensor 'a' overlaps tensor 'b'\n  why: it begins at byte 3 of the "
            "data, and must begin at 4" +
                kAgain);
  EXPECT_EQ(message_of_header(two_tensors("[1,5]", "[5,9]"), 9),
            "65 't.safetensors': tensor 'a' does not follow on the start of the data\n"
            "  why: it begins at byte 1 of the data, and must begin at 0" +
                kAgain);
}

TEST(Safetensors, FilesThatEndElsewhereThanTheirTensorsAreRefused) {
  EXPECT_EQ(message_of_header(two_tensors("[0,4]", "[4,8]"), 7),
            "65 't.safetensors' is cut off\n  why: its tensors have 8 bytes, and 7 bytes follow "
            "the header" +
                kAgain);
  EXPECT_EQ(message_of_header(two_tensors("[0,4]", "[4,8]"), 9),
            "65 't.safetensors' has bytes that belong to no tensor\n  why: its tensors have 8 "
            "bytes, and 9 bytes follow the header" +
                kAgain);
}

TEST(Safetensors, NoFlippedBitAndNoCutOfAFileCrashesTheReader) {
  const std::vector<std::byte> data(24);
  const std::string good =
      written({{"w", FileDType::kF32, {2, 3}, data.data()}}, {{"format", "pt"}});
  for (size_t bit = 0; bit < 8 * (good.size() - 24); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(static_cast<unsigned char>(bad[bit / 8]) ^ (1U << (bit % 8)));
    // A name or a value of the metadata may change unseen; nothing else is thrown.
    const std::string message = message_of(bad);
    EXPECT_TRUE(message == "no error" || message.starts_with("65 ")) << message;
  }
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(message_of(good.substr(0, size)), testing::StartsWith("65 "));
}

}  // namespace
}  // namespace tessera
