// A disk in memory that stops, fails, fills up and loses data as real ones do. Tests use it to show
// that no checkpoint is lost.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "training/checkpoint/internal/file_system.h"

namespace tessera {

/// Thrown when the machine stops. It is not a std::exception, so that no error handler continues
/// after it.
struct MachineStopped {};

/// The data that is left when the machine stops.
enum class Crash {
  kProcessKilled,       // everything that was done
  kPowerLost,           // only what was synced: bytes by sync(), names by sync_folder()
  kPowerLostNamesKept,  // the same, but names had reached the disk before the bytes of their files
  /// The same, but removals had reached the disk before earlier renames.
  kPowerLostRemovalsKept,
};

/// A fault, and the write at which it occurs.
///
///   at     number of the write, counted from 0; every create, append, sync, rename, creation or
///          sync of a folder, and removal of a file counts as one
///   kStop  the machine stops before the write
///   kTorn  the machine stops during it: of an append, the first half is written
///   kFail  it fails, once, with an input/output error
///   kFull  the disk is full from there on: of an append, the first half is written
///   kFlip  no error is reported, but one bit in the middle of an append is stored wrongly
struct Fault {
  enum class Kind { kNone, kStop, kTorn, kFail, kFull, kFlip };
  Kind kind = Kind::kNone;
  int64_t at = 0;
};

/// A disk that holds its files in memory.  threads  any number at the same time
class SimulatedDisk final : public FileSystem {
 public:
  SimulatedDisk();

  /// Plants `fault` and counts writes from 0 again.
  void arm(Fault fault);
  /// The number of writes since arm().
  int64_t writes() const;
  /// The number of reads of file content since the disk was made.
  int64_t reads() const { return reads_; }
  /// Limits the bytes that one write or read transfers.
  void limit_transfers(size_t bytes);
  /// A thread that creates a file of this name calls `delay` first. Other files are not delayed.
  void slow_down(std::string file_name, std::function<void()> delay);
  /// From now on, a thread that creates a file waits until release().
  void hold() { held_ = true; }
  void release();
  /// The disk that the next start of the machine finds, without a fault.
  std::unique_ptr<SimulatedDisk> after(Crash crash) const;
  /// Flips one stored bit.
  ///   requires  the file has it
  void flip_bit(const std::filesystem::path& path, int64_t bit);
  /// Truncates a file.
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
  /// Counts a write. At the write of the fault, the part that is still done comes first, then an
  /// exception unless the fault is silent.
  template <typename Half, typename Flip>
  void write_begins(const std::filesystem::path& path, Half half, Flip flip);
  void write_begins(const std::filesystem::path& path);

  mutable std::mutex mutex_;
  NodePointer root_;
  Fault fault_;
  int64_t writes_ = 0;
  mutable std::atomic<int64_t> reads_{0};
  bool stopped_ = false;
  size_t max_bytes_ = SIZE_MAX;
  std::string slow_name_;
  std::function<void()> delay_;
  std::atomic<bool> held_{false};
};

}  // namespace tessera
