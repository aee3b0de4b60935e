// Reads and writes whole files, with errors that name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/files/descriptor.h"

namespace tessera {

/// What is read of a pipe at most: it may have no end.
inline constexpr int64_t kMaxPipeBytes = int64_t{1} << 30;

///   throws  UserError (66) when the file cannot be read, is a device, or is a pipe that gives more
///           than `pipe_limit` bytes
std::string read_file(const std::filesystem::path& path, int64_t pipe_limit = kMaxPipeBytes);
/// The same of a file that the program itself wrote, such as one in the folder of a run. It is
/// regular: a pipe in its place is refused, not waited for.
std::string read_own_file(const std::filesystem::path& path);

/// Writes another file and renames it, so that readers see either the old or the new text. The path
/// may be a symbolic link, whose target is then replaced. A device or a pipe is written in place. A
/// file keeps its permissions, and no other file is touched.
///   throws  UserError (1) when it cannot be written
void write_file(const std::filesystem::path& path, std::string_view text);

/// The same of a file of the program itself, which is never a device or a pipe.
void write_own_file(const std::filesystem::path& path, std::string_view text);

/// A file of the program itself to which lines are added. A piece is in the file when append()
/// returns, so that readers can follow it.
///   throws  UserError (1) when it cannot be written, or is not a regular file
class AppendedFile {
 public:
  /// Appends to the existing contents.
  explicit AppendedFile(std::filesystem::path path);
  void append(std::string_view text);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

/// Writes a file piece by piece, as write_file does: readers see the old file or the whole new one.
/// Pieces reach a device or a pipe at once.
class FileWriter {
 public:
  ///   throws  UserError (1) as write_file
  explicit FileWriter(const std::filesystem::path& path);
  /// Without finish() the file stays as it was.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void append(std::string_view text);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Checks that write_file can write `path`, before the work of which the result is to be written.
/// It leaves nothing behind, and a file at `path` as it is.
///   throws  UserError (1) as write_file
void check_can_write(const std::filesystem::path& path);

/// Does something exist at `path`? A path that cannot be looked up, such as a link to itself or a
/// name that is too long, does not: who opens it then learns the reason.
bool path_exists(const std::filesystem::path& path);

/// The file of this program; empty when the system does not tell.
std::filesystem::path program_file();

}  // namespace tessera
