// Opens files, without a wait where a file has no reason to be a pipe, and remembers which ones the
// process reads.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/files/descriptor.h"

namespace tessera {

/// What may be at a path. A user may name a pipe; the program's own files are regular, and a pipe
/// in their place would be waited for without end.
enum class FileKind { kRegular, kRegularOrPipe };

/// An open file, and what it was when it was opened.
struct OpenFile {
  Descriptor file;
  struct stat facts{};
};

/// Opens a file to read. It is from then on an input of this process (is_input).
///   throws  UserError (66) when it cannot be opened, is a folder or a device, or is a pipe and may
///           not be one
OpenFile open_to_read(const std::filesystem::path& path, FileKind kind);

/// Opens a regular file to write, and makes it when there is none. No wait for the reader of a
/// pipe.
///   flags   O_APPEND, O_TRUNC, ... of open(2)
///   throws  UserError (1)
Descriptor open_to_write(const std::filesystem::path& path, int flags);

/// Did this process open the file at `path` to read, under this or another name? Device and inode
/// decide. false when nothing is there.
///   threads  any number
bool is_input(const std::filesystem::path& path);

UserError cannot_read_error(const std::filesystem::path& path, const std::string& why);
UserError cannot_write_error(const std::filesystem::path& path, const std::string& why);

}  // namespace tessera
