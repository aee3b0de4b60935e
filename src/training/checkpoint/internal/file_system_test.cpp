#include "training/checkpoint/internal/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/testing/error.h"
#include "training/checkpoint/testing/simulated_disk.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

using error_testing::message_of;

/// The properties of every file system, on that of the machine and on the simulated one.
class AnyFileSystem : public testing::TestWithParam<bool> {
 protected:
  AnyFileSystem()
      : root_(fs::path(testing::TempDir()) / ("tessera_file_system_" + std::to_string(::getpid()) +
                                              "_" + std::to_string(GetParam()))) {
    files().remove(root_);
    files().make_folder(root_);
  }
  ~AnyFileSystem() override { files().remove(root_); }
  FileSystem& files() { return GetParam() ? static_cast<FileSystem&>(real_) : simulated_; }

  RealFileSystem real_;
  SimulatedDisk simulated_;
  fs::path root_;
};

INSTANTIATE_TEST_SUITE_P(FileSystem, AnyFileSystem, testing::Bool(),
                         [](const auto& one) { return one.param ? "Real" : "Simulated"; });

TEST_P(AnyFileSystem, BytesComeBackAsTheyWereAppended) {
  const auto file = files().create(root_ / "a");
  file->append(std::string_view("one\0two", 7));
  file->append(std::string_view());
  file->append(std::string_view("!"));
  file->sync();
  EXPECT_EQ(read_whole(files(), root_ / "a"), std::string("one\0two!", 8));
  std::string middle(3, ' ');
  files().open(root_ / "a")->read_at(4, std::as_writable_bytes(std::span<char>(middle)));
  EXPECT_EQ(middle, "two");
}

TEST_P(AnyFileSystem, CreatingEmptiesAFileThatIsThere) {
  write_synced(files(), root_ / "a", "long text");
  write_synced(files(), root_ / "a", "x");
  EXPECT_EQ(read_whole(files(), root_ / "a"), "x");
}

TEST_P(AnyFileSystem, NamesAreListedSortedAndRenamedAndRemoved) {
  files().make_folder(root_ / "in" / "side");
  write_synced(files(), root_ / "in" / "b", "1");
  write_synced(files(), root_ / "in" / "a", "2");
  EXPECT_THAT(files().list(root_ / "in"), ElementsAre("a", "b", "side"));
  files().rename(root_ / "in" / "a", root_ / "in" / "b");
  EXPECT_EQ(read_whole(files(), root_ / "in" / "b"), "2");
  files().rename(root_ / "in", root_ / "out");
  EXPECT_FALSE(files().is_folder(root_ / "in"));
  EXPECT_TRUE(files().is_folder(root_ / "out" / "side"));
  EXPECT_FALSE(files().is_folder(root_ / "out" / "b"));
  files().sync_folder(root_);
  files().remove(root_ / "out");
  files().remove(root_ / "out");
  EXPECT_THAT(files().list(root_), IsEmpty());
  EXPECT_THAT(files().list(root_ / "none"), IsEmpty());
}

TEST_P(AnyFileSystem, AFolderWithFilesIsNotReplaced) {
  files().make_folder(root_ / "new");
  files().make_folder(root_ / "old");
  write_synced(files(), root_ / "old" / "a", "1");
  EXPECT_EQ(message_of([&] { files().rename(root_ / "new", root_ / "old"); }),
            "1 cannot write '" + (root_ / "old").string() +
                "'\n  why: Directory not empty\n  fix: check that the folder exists, may be "
                "written and has room");
}

TEST_P(AnyFileSystem, ErrorsNameThePath) {
  EXPECT_EQ(message_of([&] { files().open(root_ / "none"); }),
            "66 cannot read '" + (root_ / "none").string() +
                "'\n  why: No such file or directory\n  fix: check the path and that the file may "
                "be read");
  EXPECT_EQ(message_of([&] { files().open(root_); }),
            "66 cannot read '" + root_.string() +
                "'\n  why: it is a folder\n  fix: check the path and that the file may be read");
  EXPECT_EQ(message_of([&] { files().create(root_ / "none" / "a"); }),
            "1 cannot write '" + (root_ / "none" / "a").string() +
                "'\n  why: No such file or directory\n  fix: check that the folder exists, may be "
                "written and has room");
  EXPECT_THAT(message_of([&] { files().rename(root_ / "none", root_ / "a"); }),
              testing::HasSubstr("No such file or directory"));
  EXPECT_THAT(message_of([&] { files().sync_folder(root_ / "none"); }),
              testing::HasSubstr("No such file or directory"));
}

TEST_P(AnyFileSystem, ReadingAfterTheEndSaysHowLongTheFileIs) {
  write_synced(files(), root_ / "a", "12345");
  std::string text(3, ' ');
  EXPECT_EQ(message_of([&] {
              files().open(root_ / "a")->read_at(4, std::as_writable_bytes(std::span<char>(text)));
            }),
            "65 '" + (root_ / "a").string() +
                "' ends too early\n  why: byte 6 is needed, and it has 5 bytes\n  fix: the file "
                "was cut off: fetch or write it again");
}

TEST(FileSystem, ABareNameLiesInTheFolderWhereWeAre) {
  EXPECT_EQ(folder_of("a"), fs::path("."));
  EXPECT_EQ(folder_of("in/a"), fs::path("in"));
}

TEST(SimulatedDisk, ShortWritesAndReadsAreGoneOnWith) {
  SimulatedDisk disk;
  disk.limit_transfers(3);
  write_synced(disk, "a", "ten bytes.");
  EXPECT_EQ(read_whole(disk, "a"), "ten bytes.");
}

TEST(SimulatedDisk, PowerLossKeepsOnlyWhatWasSynced) {
  SimulatedDisk disk;
  const auto synced = disk.create("synced");
  synced->append("kept");
  synced->sync();
  synced->append(" lost");
  disk.sync_folder(".");
  write_synced(disk, "unnamed", "1");
  EXPECT_THAT(disk.after(Crash::kPowerLost)->list("."), ElementsAre("synced"));
  EXPECT_EQ(read_whole(*disk.after(Crash::kPowerLost), "synced"), "kept");
  EXPECT_THAT(disk.after(Crash::kPowerLostNamesKept)->list("."), ElementsAre("synced", "unnamed"));
  EXPECT_EQ(read_whole(*disk.after(Crash::kProcessKilled), "synced"), "kept lost");
}

TEST(SimulatedDisk, NamesReachTheDiskBeforeUnsyncedBytes) {
  SimulatedDisk disk;
  disk.create("a")->append("text");
  EXPECT_EQ(read_whole(*disk.after(Crash::kPowerLostNamesKept), "a"), "");
  EXPECT_EQ(read_whole(*disk.after(Crash::kProcessKilled), "a"), "text");
}

TEST(SimulatedDisk, RemovalsMayReachTheDiskBeforeRenames) {
  SimulatedDisk disk;
  disk.make_folder("old");
  write_synced(disk, "old/a", "1");
  disk.sync_folder("old");
  disk.sync_folder(".");
  disk.rename("old", "aside");
  disk.remove("aside/a");
  EXPECT_THAT(disk.after(Crash::kPowerLost)->list("old"), ElementsAre("a"));
  EXPECT_THAT(disk.after(Crash::kPowerLostRemovalsKept)->list("."), ElementsAre("old"));
  EXPECT_THAT(disk.after(Crash::kPowerLostRemovalsKept)->list("old"), IsEmpty());
}

TEST(SimulatedDisk, StopsAtTheGivenWriteAndStaysStopped) {
  SimulatedDisk disk;
  disk.arm({Fault::Kind::kStop, 2});
  const auto file = disk.create("a");  // write 0
  file->append("1");                   // write 1
  EXPECT_THROW(file->append("2"), MachineStopped);
  EXPECT_THROW(disk.create("b"), MachineStopped);
  EXPECT_EQ(read_whole(disk, "a"), "1");
}

TEST(SimulatedDisk, ATornWriteLeavesItsFirstHalf) {
  SimulatedDisk disk;
  disk.arm({Fault::Kind::kTorn, 1});
  const auto file = disk.create("a");
  EXPECT_THROW(file->append("12345678"), MachineStopped);
  EXPECT_EQ(read_whole(*disk.after(Crash::kProcessKilled), "a"), "1234");
}

TEST(SimulatedDisk, AFailureHappensOnceAndAFullDiskStaysFull) {
  SimulatedDisk disk;
  const auto file = disk.create("a");
  disk.arm({Fault::Kind::kFail, 0});
  EXPECT_EQ(message_of([&] { file->append("1"); }),
            "1 cannot write 'a'\n  why: Input/output error\n  fix: check that the folder exists, "
            "may be written and has room");
  file->append("2");
  disk.arm({Fault::Kind::kFull, 0});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(message_of([&] { file->append("34"); }),
              "1 cannot write 'a'\n  why: No space left on device\n  fix: check that the folder "
              "exists, may be written and has room");
  EXPECT_EQ(read_whole(disk, "a"), "23");
}

}  // namespace
}  // namespace tessera
