// A file that is read piece by piece for as long as a run lasts, and must stay as it is.
#pragma once

#include <filesystem>
#include <span>

#include "base/files/descriptor.h"

namespace tessera {

/// Ranges of a regular file. What another program writes into the file meanwhile is an error, never
/// other bytes and never a signal, so the file is read and not mapped.
///
///   threads  any number may read it
///   limit    a change is known by the size and the time of the last write, which a system counts
///            in steps of some milliseconds
class StableFile {
 public:
  /// What it has open: one descriptor, or none between two reads, for one of many files.
  enum class Descriptors { kOne, kNone };

  ///   throws  UserError (66) when it cannot be opened, or is not a regular file
  explicit StableFile(std::filesystem::path path, Descriptors held = Descriptors::kOne);

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }
  /// Fills `out` with the bytes from `offset` on.
  ///   requires  they are in the file
  ///   throws    UserError: 65 when the file has changed since it was opened, or is another one; 66
  ///             when it cannot be read
  void read_at(int64_t offset, std::span<char> out) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;  // closed: the file is opened for each read
  int64_t size_ = 0;
  /// Device, inode, and the time of the last write in nanoseconds.
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t written = 0;
    bool operator==(const Identity&) const = default;
  };
  Identity identity_;
};

}  // namespace tessera
