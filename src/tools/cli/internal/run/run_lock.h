// The lock on the folder of a run: one program at a time writes into it.
#pragma once

#include <filesystem>

namespace tessera {

/// Holds FOLDER/lock, a file that stays behind; the lock itself ends with its process, however that
/// ends.
///
///   limit  a file system without locks has none; a warning says so
class RunLock {
 public:
  /// Makes the folder, and waits a few seconds for another process that is just ending.
  ///   throws  UserError: 2 when another process holds the lock, which the message names; 1 when
  ///           the folder cannot be written
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace tessera
