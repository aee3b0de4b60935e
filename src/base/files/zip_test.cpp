#include "base/files/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::message_of;
using testing::HasSubstr;

std::string number(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// A member as the tests write it, with what they change in its entry of the directory.
struct Written {
  std::string name, content;
  uint64_t flags = 0, method = 0, crc_change = 0, size_change = 0;
  bool large = false;  // are its sizes in an extra field of 64 bits?
};

/// An archive of stored members.
///   large_end  with the 64-bit record of the directory
std::string archive(const std::vector<Written>& members, bool large_end = false) {
  std::string bytes, directory;
  for (const Written& m : members) {
    const uint64_t size = m.content.size();
    const uint64_t crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(m.content.data()), size) ^ m.crc_change;
    const uint64_t small = m.large ? 0xffffffff : size;
    const std::string extra =
        m.large ? number(1, 2) + number(16, 2) + number(size + m.size_change, 8) + number(size, 8)
                : "";
    const std::string common = number(m.flags, 2) + number(m.method, 2) + number(0, 4) +
                               number(crc, 4) + number(small, 4) +
                               number(m.large ? small : size + m.size_change, 4) +
                               number(m.name.size(), 2);
    directory += "PK\1\2" + number(20, 2) + number(20, 2) + common + number(extra.size(), 2) +
                 number(0, 10) + number(bytes.size(), 4) + m.name + extra;
    bytes += "PK\3\4" + number(20, 2) + common + number(0, 2) + m.name + m.content;
  }
  const uint64_t begin = bytes.size(), count = members.size();
  bytes += directory;
  if (large_end)
    bytes += "PK\6\6" + number(44, 8) + number(45, 2) + number(45, 2) + number(0, 8) +
             number(count, 8) + number(count, 8) + number(directory.size(), 8) + number(begin, 8) +
             "PK\6\7" + number(0, 4) + number(begin + directory.size(), 8) + number(1, 4);
  return bytes + "PK\5\6" + number(0, 4) + number(large_end ? 0xffff : count, 2) +
         number(large_end ? 0xffff : count, 2) + number(directory.size(), 4) + number(begin, 4) +
         number(0, 2);
}

std::string read_all(const std::string& bytes) {
  const ZipArchive zip(bytes, "f");
  std::string text;
  for (const ZipMember& member : zip.members()) text += member.name + "=" + zip.read(member) + ";";
  return text;
}

std::string refusal(const std::string& bytes) {
  return message_of(ExitCode::kBadData, [&] { read_all(bytes); });
}

TEST(Zip, MembersAreReadInTheOrderOfTheDirectory) {
  EXPECT_EQ(read_all(archive({{"a", "first"}, {"b", ""}})), "a=first;b=;");
  EXPECT_EQ(read_all(archive({})), "");
}

TEST(Zip, SizesAndDirectoriesOf64BitsAreRead) {
  EXPECT_EQ(read_all(archive({{.name = "a", .content = "first", .large = true}})), "a=first;");
  EXPECT_EQ(read_all(archive({{"a", "first"}, {"b", "2"}}, true)), "a=first;b=2;");
}

TEST(Zip, AComment) {
  std::string bytes = archive({{"a", "first"}});
  bytes.replace(bytes.size() - 2, 2, number(3, 2));
  EXPECT_EQ(read_all(bytes + "abc"), "a=first;");
}

TEST(Zip, WrongSumsAndSizesAreRefused) {
  EXPECT_EQ(refusal(archive({{.name = "a", .content = "first", .crc_change = 1}})),
            "'f' is no ZIP archive that can be read\n"
            "  why: the CRC-32 of its member 'a' is wrong\n"
            "  fix: write it with numpy.savez or numpy.savez_compressed, or copy it again");
  EXPECT_THAT(refusal(archive({{.name = "a", .content = "first", .size_change = 1}})),
              HasSubstr("its member 'a' has 5 bytes, and its directory says 6"));
  EXPECT_THAT(
      refusal(archive({{.name = "a", .content = "first", .size_change = 1, .large = true}})),
      HasSubstr("its member 'a' has 5 bytes, and its directory says 6"));
}

TEST(Zip, EncryptedOnesOtherMethodsAndTwoOfOneNameAreRefused) {
  EXPECT_THAT(refusal(archive({{.name = "a", .content = "x", .flags = 1}})),
              HasSubstr("its member 'a' is encrypted"));
  EXPECT_THAT(refusal(archive({{.name = "a", .content = "x", .method = 14}})),
              HasSubstr("its member 'a' is compressed by method 14"));
  EXPECT_THAT(refusal(archive({{"a", "x"}, {"a", "y"}})),
              HasSubstr("two of its members have the name 'a'"));
}

TEST(Zip, EveryBeginningOfAnArchiveIsRefused) {
  for (const bool large : {false, true}) {
    const std::string whole = archive({{"a", "first"}, {"b", "2"}}, large);
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("may be cut off")) << size;
  }
}

TEST(Zip, EveryChangedByteIsRefusedOrChangesNoContent) {
  for (const bool large : {false, true}) {
    const std::string whole = archive({{.name = "a", .content = "first", .large = large}}, large);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0xff);
      try {
        EXPECT_EQ(read_all(changed), "a=first;") << at;
      } catch (const UserError&) {
      }
    }
  }
}

}  // namespace
}  // namespace tessera
