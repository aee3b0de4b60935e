// A disk in memory that stops, fails, fills up and forgets as real ones do: the means by which
// tests prove that no checkpoint is lost.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "checkpoint/file_system.h"

namespace tessera {

/// Thrown where the machine stops. No std::exception, so that no handler of errors goes on after
/// it.
struct MachineStopped {};

/// What is left when the machine stops.
enum class Crash {
  kProcessKilled,       // all that was done
  kPowerLost,           // only what was synced: bytes by sync(), names by sync_folder()
  kPowerLostNamesKept,  // the same, but names had reached the disk before the bytes of their files
  kPowerLostRemovalsKept,  // the same, but removals had reached the disk before renames that came
                           // first
};

/// What goes wrong, and at which write.
///
///   at      number of the write from 0; every create, append, sync, rename, folder made or synced,
///   and file removed counts as one kStop   the machine stops before it kTorn   the machine stops
///   in it: of an append, the first half is written kFail   it fails, once, with an input/output
///   error kFull   the disk is full from there on: of an append, the first half is written kFlip
///   nothing is said, but of an append one bit in the middle is stored wrongly
struct Fault {
  enum class Kind { kNone, kStop, kTorn, kFail, kFull, kFlip };
  Kind kind = Kind::kNone;
  int64_t at = 0;
};

/// Files in memory.  threads: any number at once
class SimulatedDisk final : public FileSystem {
 public:
  SimulatedDisk();

  /// From now on, counting writes from 0 again.
  void arm(Fault fault);
  /// Writes since arm().
  int64_t writes() const;
  /// Reads of file content since the disk was made.
  int64_t reads() const { return reads_; }
  /// At most so many bytes go in or come out in one write or read.
  void limit_transfers(size_t bytes);
  /// Files of this name take so long to be made. Others do not wait for them.
  void slow_down(std::string file_name, std::chrono::milliseconds time);
  /// What the next start of the machine finds, on a disk without fault.
  std::unique_ptr<SimulatedDisk> after(Crash crash) const;
  /// Damages one stored bit.
  ///   requires  the file has it
  void flip_bit(const std::filesystem::path& path, int64_t bit);
  /// Cuts a file off.
  void truncate(const std::filesystem::path& path, int64_t bytes);

  std::unique_ptr<OutputFile> create(const std::filesystem::path& path) override;
  std::unique_ptr<InputFile> open(const std::filesystem::path& path) override;
  void make_folder(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;
  void sync_folder(const std::filesystem::path& path) override;
  std::vector<std::string> list(const std::filesystem::path& path) override;
  bool is_folder(const std::filesystem::path& path) override;

 private:
  struct Node;
  using NodePointer = std::shared_ptr<Node>;
  class Output;
  class Input;

  static NodePointer copy(const Node& node, Crash crash);
  NodePointer find(const std::filesystem::path& path) const;
  NodePointer folder_for(const std::filesystem::path& path) const;
  void remove_child(Node& folder, const std::string& name, const std::filesystem::path& path);
  /// Counts a write. When it is the one that goes wrong, what is done of it comes first, then an
  /// exception, if it does not go on in silence.
  template <typename Half, typename Flip>
  void write_begins(const std::filesystem::path& path, Half half, Flip flip);
  void write_begins(const std::filesystem::path& path);

  mutable std::mutex mutex_;
  NodePointer root_;
  Fault fault_;
  int64_t writes_ = 0;
  mutable std::atomic<int64_t> reads_{0};
  bool stopped_ = false;
  size_t most_bytes_ = SIZE_MAX;
  std::string slow_name_;
  std::chrono::milliseconds slow_time_{0};
};

}  // namespace tessera
