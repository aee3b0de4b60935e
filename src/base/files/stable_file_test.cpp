#include "base/files/stable_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Descriptors = StableFile::Descriptors;

class StableFileTest : public testing::TestWithParam<Descriptors> {
 protected:
  fs::path write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  /// The exit code and what happened of a read; 0 when it succeeds.
  static std::pair<int, std::string> error_of_read(const StableFile& file) {
    std::string text(static_cast<size_t>(file.size()), ' ');
    try {
      file.read_at(0, text);
    } catch (const UserError& error) {
      return {static_cast<int>(error.exit_code()), error.what_happened()};
    }
    return {0, ""};
  }
  /// Makes the last write a second older, so that a second one has another time.
  void set_back() const {
    fs::last_write_time(path_, fs::last_write_time(path_) - std::chrono::seconds(1));
  }

  TestFolder folder_;
  const fs::path path_ = folder_ / "data.txt";
};

TEST_P(StableFileTest, ReadsAnyRange) {
  const StableFile file(write("0123456789"), GetParam());
  EXPECT_EQ(file.size(), 10);
  std::string middle(4, ' '), none;
  file.read_at(3, middle);
  EXPECT_EQ(middle, "3456");
  file.read_at(10, none);
}

TEST_P(StableFileTest, AFileThatBecameShorterIsAnError) {
  const StableFile file(write(std::string(100'000, 'x')), GetParam());
  fs::resize_file(path_, 0);
  const auto [code, what] = error_of_read(file);
  EXPECT_EQ(code, 65);
  EXPECT_EQ(what, "'" + path_.string() + "' has changed since this command opened it");
}

TEST_P(StableFileTest, AFileThatBecameLongerIsAnError) {
  const StableFile file(write("abc"), GetParam());
  std::ofstream(path_, std::ios::app) << "d";
  EXPECT_EQ(error_of_read(file).first, 65);
}

TEST_P(StableFileTest, AFileThatWasRewrittenWithTheSameSizeIsAnError) {
  write("abc");
  set_back();
  const StableFile file(path_, GetParam());
  write("xyz");
  EXPECT_EQ(error_of_read(file).first, 65);
}

TEST_P(StableFileTest, AnUnchangedFileIsReadAgainAndAgain) {
  const StableFile file(write("abc"), GetParam());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of_read(file).first, 0);
}

TEST_P(StableFileTest, RefusesWhatIsNoFile) {
  EXPECT_THROW(StableFile(folder_ / "absent", GetParam()), UserError);
  EXPECT_THROW(StableFile(folder_.path(), GetParam()), UserError);
  EXPECT_THROW(StableFile("/dev/null", GetParam()), UserError);
}

INSTANTIATE_TEST_SUITE_P(Descriptors, StableFileTest,
                         testing::Values(Descriptors::kOne, Descriptors::kNone),
                         [](const auto& held) {
                           return held.param == Descriptors::kOne ? "Held" : "Reopened";
                         });

TEST(StableFileReplaced, ADescriptorThatIsHeldReadsTheFileThatWasOpened) {
  const TestFolder folder;
  write_file(folder / "a", "old");
  const StableFile held(folder / "a"), reopened(folder / "a", Descriptors::kNone);
  write_file(folder / "b", "new");
  fs::rename(folder / "b", folder / "a");
  std::string text(3, ' ');
  held.read_at(0, text);
  EXPECT_EQ(text, "old");
  EXPECT_THROW(reopened.read_at(0, text), UserError);
}

}  // namespace
}  // namespace tessera
