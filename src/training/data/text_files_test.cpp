#include "training/data/text_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/testing/error.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using error_testing::throws_user_error;

namespace fs = std::filesystem;

constexpr int64_t kPlenty = 1 << 20;

class ReadText : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  TestFolder folder_;
};

TEST_F(ReadText, ReadsFilesInTheOrderOfTheirPaths) {
  const fs::path b = write("b.txt", "second "), a = write("a.txt", "first "),
                 c = write("c.txt", "third");
  EXPECT_EQ(read_text({c, a, b}, kPlenty), "first second third");
}

TEST_F(ReadText, TheFileOfAByteIsKnownWhetherItWasLoadedOrNot) {
  const fs::path a = write("a.txt", "abc"), empty = write("b.txt", ""), c = write("c.txt", "de"),
                 large = write("d.txt", std::string(100'000, 'x')), last = write("e.txt", "f");
  const TextFiles files({a, empty, c, large, last});
  const auto at = [&](int64_t offset) { return files.file_at(offset); };
  EXPECT_EQ(at(0), std::pair(a, int64_t{0}));
  EXPECT_EQ(at(2), std::pair(a, int64_t{2}));
  EXPECT_EQ(at(3), std::pair(c, int64_t{0}));
  EXPECT_EQ(at(5), std::pair(large, int64_t{0}));
  EXPECT_EQ(at(100'004), std::pair(large, int64_t{99'999}));
  EXPECT_EQ(at(100'005), std::pair(last, int64_t{0}));
}

TEST_F(ReadText, ReadsFoldersRecursivelyFolderByFolder) {
  // "one" comes before "one.txt", so all of the folder one comes before the file one.txt.
  write("one.txt", "3");
  write("one/b.txt", "2");
  write("one/a/z.txt", "1");
  write("two/a.txt", "4");
  EXPECT_EQ(read_text({folder_.path()}, kPlenty), "1234");
}

TEST_F(ReadText, AFileThatIsNamedTwiceIsReadOnce) {
  const fs::path a = write("in/a.txt", "once");
  EXPECT_EQ(read_text({a, folder_ / "in", folder_ / "in" / "." / "a.txt"}, kPlenty), "once");
}

TEST_F(ReadText, PassesOverFilesWithAZeroByteInTheirFirst4096) {
  write("a.txt", "text ");
  write("b.bin", std::string("PK\0\1", 4));
  write("c.bin", std::string(4095, 'x') + '\0');
  write("d.txt", "more");
  EXPECT_EQ(read_text({folder_.path()}, kPlenty), "text more");
}

TEST_F(ReadText, AZeroByteAfterTheFirst4096IsText) {
  const std::string text = std::string(4096, 'x') + '\0' + "y";
  EXPECT_EQ(read_text({write("a.txt", text)}, kPlenty), text);
}

TEST_F(ReadText, CutsOffWhatIsMoreThanTheBytesAskedFor) {
  write("a.txt", "0123456789");
  write("b.txt", "abc");
  EXPECT_EQ(read_text({folder_.path()}, 4), "0123");
  EXPECT_EQ(read_text({folder_.path()}, 10), "0123456789");
  EXPECT_EQ(read_text({folder_.path()}, 12), "0123456789ab");
  EXPECT_EQ(read_text({folder_.path()}, 13), "0123456789abc");
  EXPECT_EQ(read_text({folder_.path()}, 14), "0123456789abc");
}

TEST_F(ReadText, ReadsFilesThatAreLongerThanOneReading) {
  std::string text;
  for (int i = 0; i < 400000; ++i) text += std::to_string(i) + " ";  // 2.7 MB
  const fs::path path = write("long.txt", text);
  EXPECT_EQ(read_text({path}, 1 << 30), text);
  EXPECT_EQ(read_text({path}, 2000001), text.substr(0, 2000001));
}

TEST_F(ReadText, DoesNotCutACharacterOfUtf8) {
  // The face has bytes 3 to 6.
  const fs::path path = write("a.txt", "abc😀d");
  for (int64_t limit : {3, 4, 5, 6}) EXPECT_EQ(read_text({path}, limit), "abc");
  EXPECT_EQ(read_text({path}, 7), "abc😀");
  EXPECT_EQ(read_text({path}, 8), "abc😀d");
}

TEST_F(ReadText, CutsTextThatIsNotUtf8WhereItIsAsked) {
  const fs::path path = write("a.txt", "ab\x80\x80\x80\x80\x80z");
  EXPECT_EQ(read_text({path}, 6), "ab\x80\x80\x80\x80");
}

TEST_F(ReadText, FollowsNoLinkToNothingInAFolder) {
  write("a.txt", "text");
  fs::create_symlink(folder_ / "nowhere", folder_ / "link.txt");
  EXPECT_EQ(read_text({folder_.path()}, kPlenty), "text");
}

TEST_F(ReadText, AMissingPathIsNamed) {
  const fs::path here = write("a.txt", "text"), missing = folder_ / "b.txt";
  EXPECT_THAT([&] { read_text({here, missing}, kPlenty); },
              throws_user_error("cannot read text from '" + missing.string() +
                                    "'\n"
                                    "  why: there is no such file or folder\n"
                                    "  fix: check the path and that it may be read; a relative "
                                    "path starts at the folder in which the program "
                                    "was started",
                                ExitCode::kMissingInput));
}

TEST_F(ReadText, APathThatIsNeitherFileNorFolderIsNamed) {
  EXPECT_THAT([&] { read_text({"/dev/null"}, kPlenty); },
              throws_user_error("cannot read text from '/dev/null'\n"
                                "  why: it is neither a file nor a folder\n"
                                "  fix: check the path and that it may be read; a relative path "
                                "starts at the folder in which the program "
                                "was started",
                                ExitCode::kMissingInput));
}

TEST_F(ReadText, NoTextInAllOfThemIsSaidWithTheirNumbers) {
  const fs::path empty = write("empty.txt", "");
  write("in/a.bin", std::string(1, '\0'));
  write("in/b.bin", std::string("x\0", 2));
  EXPECT_THAT(
      [&] { read_text({empty, folder_ / "in"}, kPlenty); },
      throws_user_error(
          "there is no text in '" + empty.string() + "', '" + (folder_ / "in").string() +
              "'\n"
              "  why: files found: 3; empty: 1; not text (a zero byte in the first 4096): 2\n"
              "  fix: name files of text, or folders that hold them",
          ExitCode::kBadData));
}

TEST_F(ReadText, NoPathIsNoText) {
  EXPECT_THAT([] { read_text({}, kPlenty); },
              throws_user_error(
                  "no file or folder of text is named\n"
                  "  why: files found: 0; empty: 0; not text (a zero byte in the first 4096): 0\n"
                  "  fix: name files of text, or folders that hold them",
                  ExitCode::kBadData));
}

TEST_F(ReadText, WithoutALimitNothingIsLeftOut) {
  const std::string large(300'000, 'x'), small(5'000, 'y');
  const TextFiles files({write("a.txt", large), write("b.txt", small)});
  EXPECT_EQ(files.size(), 305'000);
  EXPECT_EQ(files.left_out(), 0);
  EXPECT_EQ(files.text(), large + small);
}

TEST_F(ReadText, ALimitSaysHowMuchTextItLeavesOut) {
  // Files that are loaded and others; the file of a zero byte is no text.
  for (const int64_t size : {10, 200'000}) {
    write("a.txt", std::string(size, 'a'));
    write("b.txt", std::string(size, 'b'));
    write("c.txt", std::string(size, 'c'));
    write("d.bin", std::string(size, '\0'));
    const TextFiles files({folder_.path()}, size + size / 2);
    EXPECT_EQ(files.size(), size + size / 2);
    EXPECT_EQ(files.left_out(), size - size / 2 + size) << "the rest of b and all of c";
  }
}

TEST_F(ReadText, ACharacterThatTheLimitDividesIsLeftOutOfLargeFilesToo) {
  const std::string snow = "\u2603";  // three bytes
  std::string text;
  while (text.size() < 90'000) text += snow;
  const TextFiles files({write("snow.txt", text)}, 70'000);  // 23,333 whole ones and a byte
  EXPECT_EQ(files.size(), 69'999);
  EXPECT_EQ(files.left_out(), std::ssize(text) - 69'999);
}

TEST_F(ReadText, ALargeFileThatBecomesShorterIsAnErrorOfTheNextRead) {
  const fs::path path = write("a.txt", std::string(200'000, 'x'));
  const TextFiles files({path});
  fs::resize_file(path, 0);
  EXPECT_THAT([&] { files.text(); },
              throws_user_error("'" + path.string() +
                                    "' has changed since this command opened it\n"
                                    "  why: it has 0 bytes, and had 200000\n"
                                    "  fix: let no program write into the data of a run: give the "
                                    "run a copy, and put new data into new files",
                                ExitCode::kBadData));
}

TEST_F(ReadText, MoreFilesThanDescriptorsAreRead) {
  std::string all;
  for (int i = 0; i < 300; ++i) {
    const std::string text(64 << 10, static_cast<char>('a' + i % 26));
    write("f" + std::to_string(10'000 + i), text);
    all += text;
  }
  const TextFiles files({folder_.path()});
  const int64_t held = std::distance(fs::directory_iterator("/proc/self/fd"), {});
  EXPECT_LT(held, 400);
  EXPECT_EQ(files.text(), all);
}

TEST_F(ReadText, ARangeCrossesTheFiles) {
  std::string all;
  for (int i = 0; i < 40; ++i) {
    const std::string text(i % 3 == 0 ? 70'000 : 40 * i + 1, static_cast<char>('A' + i % 26));
    write("f" + std::to_string(100 + i), text);
    all += text;
  }
  const TextFiles files({folder_.path()});
  ASSERT_EQ(files.size(), std::ssize(all));
  for (const Range range : {Range{0, 1}, Range{69'999, 70'120}, Range{69'000, 300'000},
                            Range{std::ssize(all) - 5, std::ssize(all)}, Range{7, 7}}) {
    std::string found;
    files.visit(range, [&](std::string_view part) { found += part; });
    EXPECT_EQ(found, all.substr(range.begin, range.size()));
  }
}

}  // namespace
}  // namespace tessera
