// The interface to a disk that checkpoints use. Tests implement it by a simulated disk that stops,
// fills up or fails at any write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/open_file.h"

namespace tessera {

/// A file that is being written from its start. The destructor closes it.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Writes all of `bytes` at the end.  throws  UserError (1)
  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) {
    append(std::as_bytes(std::span<const char>(text.data(), text.size())));
  }
  /// Makes the appended bytes survive a power failure. The name of the file survives it after
  /// FileSystem::sync_folder.
  ///   throws  UserError (1)
  virtual void sync() = 0;

 protected:
  /// Writes some of `bytes`, at least one, and returns how many: a disk may write fewer than it is
  /// given.
  virtual size_t write_some(std::span<const std::byte> bytes) = 0;
};

/// A file that is read at any offset.  threads  any number at the same time
class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual int64_t size() const = 0;
  /// Fills `out` with the bytes from `offset` on.
  ///   throws  UserError: 65 when the file ends before, 66 when it cannot be read
  void read_at(int64_t offset, std::span<std::byte> out) const;
  const std::filesystem::path& path() const { return path_; }

 protected:
  explicit InputFile(std::filesystem::path path) : path_(std::move(path)) {}
  /// Reads some bytes and returns how many; 0 at the end of the file.
  virtual size_t read_some(int64_t offset, std::span<std::byte> out) const = 0;

 private:
  std::filesystem::path path_;
};

/// Files and folders.
///
///   threads  any number at the same time
///   throws   UserError that names the path: 66 when it is missing or cannot be read, 1 when it
///            cannot be written
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Truncates an existing file.
  virtual std::unique_ptr<OutputFile> create(const std::filesystem::path& path) = 0;
  virtual std::unique_ptr<InputFile> open(const std::filesystem::path& path) = 0;
  /// Makes a folder and the folders above it. Does nothing when the folder exists.
  virtual void make_folder(const std::filesystem::path& path) = 0;
  /// Renames atomically. It replaces a file at `to`, and throws when `to` is a folder that is not
  /// empty.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Removes a file, or a folder with its contents; not atomically. Does nothing when it does not
  /// exist.
  virtual void remove(const std::filesystem::path& path) = 0;
  /// Makes the present names in the folder survive a power failure.
  virtual void sync_folder(const std::filesystem::path& path) = 0;
  /// The names in the folder, sorted; empty when there is no such folder.
  virtual std::vector<std::string> list(const std::filesystem::path& path) = 0;
  virtual bool is_folder(const std::filesystem::path& path) = 0;
};

/// The file system of the machine.
class RealFileSystem final : public FileSystem {
 public:
  std::unique_ptr<OutputFile> create(const std::filesystem::path& path) override;
  std::unique_ptr<InputFile> open(const std::filesystem::path& path) override;
  void make_folder(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;
  void sync_folder(const std::filesystem::path& path) override;
  std::vector<std::string> list(const std::filesystem::path& path) override;
  bool is_folder(const std::filesystem::path& path) override;
};

/// All bytes of a file.
std::string read_whole(FileSystem& files, const std::filesystem::path& path);
/// Writes a file and syncs it. When the call returns, the file is complete.
void write_synced(FileSystem& files, const std::filesystem::path& path, std::string_view text);
/// The folder that contains `path`; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace tessera
