#include "base/files/open_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class OpenFileTest : public testing::Test {
 protected:
  fs::path pipe() const {
    const fs::path path = folder_ / "pipe";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  TestFolder folder_;
};

TEST_F(OpenFileTest, ReadsTheBytesOfAFileAndItsSize) {
  write_file(folder_ / "a", "12345");
  const OpenFile open = open_to_read(folder_ / "a", FileKind::kRegular);
  EXPECT_TRUE(open.file.is_open());
  EXPECT_EQ(open.facts.st_size, 5);
}

TEST_F(OpenFileTest, DoesNotWaitForAPipeWhereAFileShouldBe) {
  const fs::path path = pipe();  // nothing reads or writes it
  EXPECT_THROW(open_to_read(path, FileKind::kRegular), UserError);
  EXPECT_THROW(open_to_write(path, O_APPEND), UserError);
  const Descriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  EXPECT_THROW(open_to_write(path, O_APPEND), UserError) << "also when something reads it";
}

TEST_F(OpenFileTest, RefusesFoldersAndDevices) {
  for (const FileKind kind : {FileKind::kRegular, FileKind::kRegularOrPipe})
    for (const fs::path& path : {folder_.path(), fs::path("/dev/null"), folder_ / "missing"})
      EXPECT_THROW(open_to_read(path, kind), UserError) << path;
  EXPECT_THROW(open_to_write(folder_.path(), 0), UserError);
  EXPECT_THROW(open_to_write("/dev/null", 0), UserError);
}

TEST_F(OpenFileTest, AnInputIsKnownUnderEveryNameOfItsFile) {
  write_file(folder_ / "read", "x");
  write_file(folder_ / "other", "x");
  fs::create_symlink(folder_ / "read", folder_ / "link");
  fs::create_hard_link(folder_ / "read", folder_ / "second");
  open_to_read(folder_ / "read", FileKind::kRegularOrPipe);
  for (const char* name : {"read", "link", "second"}) EXPECT_TRUE(is_input(folder_ / name)) << name;
  EXPECT_FALSE(is_input(folder_ / "other"));
  EXPECT_FALSE(is_input(folder_ / "missing"));
}

TEST_F(OpenFileTest, WhatIsOnlyWrittenIsNoInput) {
  open_to_write(folder_ / "written", O_TRUNC);
  EXPECT_FALSE(is_input(folder_ / "written"));
}

}  // namespace
}  // namespace tessera
