#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Property;
using testing::StrEq;
using testing::Throws;

/// A folder of its own for each test, which is removed afterwards.
class File : public testing::Test {
 protected:
  File() : folder_(fs::path(testing::TempDir()) / ("tessera_file_" + name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~File() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;

 private:
  static std::string name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
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
  EXPECT_THAT([&] { read_file(folder_); }, cannot_read(folder_, "it is a folder"));
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
  EXPECT_THAT([&] { check_writable(folder_ / "none" / "a.txt"); },
              cannot_write(folder_ / "none" / "a.txt", "No such file or directory"));
  EXPECT_THAT([&] { check_writable(folder_); }, cannot_write(folder_, "Is a directory"));
  write_file(folder_ / "a.txt", "old");
  EXPECT_THAT([&] { check_writable(folder_ / "a.txt" / "b.txt"); },
              cannot_write(folder_ / "a.txt" / "b.txt", "Not a directory"));
  check_writable(folder_ / "a.txt");
  check_writable(folder_ / "new.txt");
  EXPECT_EQ(read_file(folder_ / "a.txt"), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(File, WritingOverAFolderIsRefusedAndLeavesNothing) {
  fs::create_directories(folder_ / "in" / "side");
  EXPECT_THAT([&] { write_file(folder_ / "in", "text"); },
              cannot_write(folder_ / "in", "Is a directory"));
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace tessera
