#include "base/files/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Property;
using testing::StrEq;
using testing::Throws;

class File : public testing::Test {
 protected:
  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  TestFolder folder_;
};

auto cannot_read(const fs::path& path, const std::string& why) {
  return Throws<UserError>(AllOf(
      Property(&UserError::what, StrEq("cannot read '" + path.string() + "'\n  why: " + why +
                                       "\n  fix: check the path and that the file may be read")),
      Property(&UserError::exit_code, ExitCode::kMissingInput)));
}

auto cannot_write(const fs::path& path, const std::string& why) {
  return Throws<UserError>(
      AllOf(Property(&UserError::what,
                     StrEq("cannot write '" + path.string() + "'\n  why: " + why +
                           "\n  fix: check that the folder exists, may be written and has room")),
            Property(&UserError::exit_code, ExitCode::kFailure)));
}

TEST_F(File, ComesBackAsItWasWritten) {
  const fs::path path = folder_ / "a.bin";
  for (const std::string& text :
       {std::string(), std::string("line\r\nline\n"), std::string("\0\xff\n", 3)}) {
    write_file(path, text);
    EXPECT_EQ(read_file(path), text);
  }
}

TEST_F(File, LeavesNothingBesideWhatWasWritten) {
  write_file(folder_ / "a.txt", "old");
  write_file(folder_ / "a.txt", "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, ReadingSaysWhatIsMissing) {
  EXPECT_THAT([&] { read_file(folder_ / "none.txt"); },
              cannot_read(folder_ / "none.txt", "No such file or directory"));
  EXPECT_THAT([&] { read_file(folder_ / "none" / "a.txt"); },
              cannot_read(folder_ / "none" / "a.txt", "No such file or directory"));
}

TEST_F(File, ReadingAFolderIsRefused) {
  EXPECT_THAT([&] { read_file(folder_.path()); }, cannot_read(folder_.path(), "it is a folder"));
}

TEST_F(File, ReadingAPathThatCannotBeIsRefused) {
  const fs::path path = folder_ / std::string(5000, 'x');
  EXPECT_THAT([&] { read_file(path); }, cannot_read(path, "File name too long"));
}

TEST_F(File, WritingIntoAFolderThatIsNotThereIsRefused) {
  const fs::path path = folder_ / "none" / "a.txt";
  EXPECT_THAT([&] { write_file(path, "text"); }, cannot_write(path, "No such file or directory"));
}

TEST_F(File, CheckingThatAFileCanBeWrittenRefusesWhatWritingWouldAndLeavesNothing) {
  EXPECT_THAT([&] { check_can_write(folder_ / "none" / "a.txt"); },
              cannot_write(folder_ / "none" / "a.txt", "No such file or directory"));
  EXPECT_THAT([&] { check_can_write(folder_.path()); },
              cannot_write(folder_.path(), "Is a directory"));
  write_file(folder_ / "a.txt", "old");
  EXPECT_THAT([&] { check_can_write(folder_ / "a.txt" / "b.txt"); },
              cannot_write(folder_ / "a.txt" / "b.txt", "Not a directory"));
  check_can_write(folder_ / "a.txt");
  check_can_write(folder_ / "new.txt");
  check_can_write("/dev/null");
  EXPECT_EQ(read_file(folder_ / "a.txt"), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, WritingOverAFolderIsRefusedAndLeavesNothing) {
  fs::create_directories(folder_ / "in" / "side");
  EXPECT_THAT([&] { write_file(folder_ / "in", "text"); },
              cannot_write(folder_ / "in", "Is a directory"));
  EXPECT_EQ(files(), 1u);
}

std::string text_after(const fs::path& link) {
  EXPECT_TRUE(fs::is_symlink(link));
  return read_file(link);
}

TEST_F(File, WritingThroughASymbolicLinkChangesItsTarget) {
  write_file(folder_ / "a.txt", "old");
  fs::create_symlink("a.txt", folder_ / "relative");
  fs::create_symlink(folder_ / "relative", folder_ / "link_to_link");
  for (const char* link : {"relative", "link_to_link"}) {
    write_file(folder_ / link, link);
    EXPECT_EQ(text_after(folder_ / link), link);
    EXPECT_EQ(read_file(folder_ / "a.txt"), link);
  }
}

TEST_F(File, WritingThroughALinkToNothingMakesItsTarget) {
  fs::create_symlink("new.txt", folder_ / "link");
  write_file(folder_ / "link", "text");
  EXPECT_EQ(text_after(folder_ / "link"), "text");
}

TEST_F(File, WritingIntoADeviceLeavesItADevice) {
  fs::create_symlink("/dev/null", folder_ / "null");
  fs::create_symlink("/dev/full", folder_ / "full");
  write_file(folder_ / "null", "text");
  EXPECT_THAT([&] { write_file(folder_ / "full", "text"); },
              cannot_write("/dev/full", "No space left on device"));
  for (const char* device : {"/dev/null", "/dev/full"})
    EXPECT_TRUE(fs::is_character_file(device)) << device;
}

TEST_F(File, WritingIntoAPipeLeavesItAPipe) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(pipe); });
  write_file(pipe, "text");
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST_F(File, WritingLeavesTheTemporaryFilesOfOthers) {
  const std::string mine = ".tessera-" + std::to_string(getpid()) + "-0.tmp";
  for (const std::string& other : {std::string("a.txt.tmp"), mine})
    write_file(folder_ / other, "theirs");
  write_file(folder_ / "a.txt", "mine");
  for (const std::string& other : {std::string("a.txt.tmp"), mine})
    EXPECT_EQ(read_file(folder_ / other), "theirs");
  EXPECT_EQ(files(), 3u);
}

TEST_F(File, WritingKeepsThePermissions) {
  const fs::path path = folder_ / "a.txt";
  write_file(path, "old");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  write_file(path, "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(File, ReadingADeviceIsRefused) {
  for (const char* device : {"/dev/zero", "/dev/random", "/dev/full"})
    EXPECT_THAT([&] { read_file(device); },
                cannot_read(device, "it is a device, which may have no end"));
}

TEST_F(File, ReadingAPipeWithoutEndStopsAtTheLimit) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::signal(SIGPIPE, SIG_IGN);
    std::ofstream out(pipe);
    const std::string block(1 << 20, 'x');
    while (out.write(block.data(), std::ssize(block))) {
    }
  });
  std::string why;
  try {
    read_file(pipe, int64_t{3} << 20);
  } catch (const UserError& error) {
    why = error.why();
  }
  EXPECT_EQ(why, "it is a pipe that gives more than 3 MiB, the limit of pipes");
  writer.join();
  std::signal(SIGPIPE, SIG_DFL);
}

TEST(FileWriter, LeavesTheFileAsItWasUntilItIsFinished) {
  TestFolder folder;
  const std::string file = folder / "a";
  write_file(file, "old");
  {
    FileWriter left(file);
    left.append("half of a ");
  }
  EXPECT_EQ(read_file(file), "old");
  FileWriter writer(file);
  writer.append("new ");
  writer.append("text");
  EXPECT_EQ(read_file(file), "old");
  writer.finish();
  EXPECT_EQ(read_file(file), "new text");
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing is left behind";
}

TEST_F(File, APathThatCannotBeLookedUpDoesNotExist) {
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_TRUE(path_exists(folder_ / "."));
  EXPECT_FALSE(path_exists(folder_ / "none"));
  EXPECT_FALSE(path_exists(folder_ / "loop"));
  EXPECT_FALSE(path_exists(folder_ / std::string(5000, 'x')));
}

}  // namespace
}  // namespace tessera
