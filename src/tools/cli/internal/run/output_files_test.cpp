#include "tools/cli/internal/run/output_files.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

int code_of_check(const fs::path& path) {
  try {
    check_output(path);
  } catch (const UserError& error) {
    return static_cast<int>(error.exit_code());
  }
  return 0;
}

TEST(OutputFiles, AnOutputIsNoInputOfTheCommandUnderAnyName) {
  const TestFolder folder;
  write_file(folder / "read.toml", "a = 1");
  write_file(folder / "other.toml", "a = 1");
  fs::create_symlink(folder / "read.toml", folder / "link.toml");
  read_file(folder / "read.toml");
  EXPECT_EQ(code_of_check(folder / "read.toml"), 2);
  EXPECT_EQ(code_of_check(folder / "link.toml"), 2);
  EXPECT_EQ(code_of_check(folder / "other.toml"), 0);
  EXPECT_EQ(code_of_check(folder / "new.toml"), 0);
  EXPECT_THROW(write_output(folder / "read.toml", "x"), UserError);
  EXPECT_EQ(read_file(folder / "read.toml"), "a = 1");
}

TEST(OutputFiles, AnOutputDoesNotLieInACheckpoint) {
  const TestFolder folder;
  const fs::path checkpoint = folder / "run" / "checkpoints" / "step-00000010";
  fs::create_directories(checkpoint);
  EXPECT_EQ(code_of_check(checkpoint / "new"), 0) << "a folder of this name alone is none";
  write_file(checkpoint / "index.json", "{}");
  EXPECT_EQ(code_of_check(checkpoint / "new"), 2);
  EXPECT_THROW(check_output_folder(checkpoint), UserError);
  EXPECT_THROW(check_output_folder(checkpoint / "a" / "b"), UserError);
  fs::create_directory_symlink(checkpoint, folder / "link");
  EXPECT_EQ(code_of_check(folder / "link" / "new"), 2);
  EXPECT_EQ(code_of_check(folder / "run" / "new"), 0);
  check_output_folder(folder / "run");
}

TEST(OutputFiles, APathThatCannotBeLookedUpIsAnErrorOfThePath) {
  const TestFolder folder;
  EXPECT_EQ(code_of_check(folder / "missing" / "file"), 1);
  EXPECT_EQ(code_of_check(folder / std::string(300, 'x')), 1);
}

}  // namespace
}  // namespace tessera
