#include "base/files/open_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/files/missing_path.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

using FileId = std::pair<dev_t, ino_t>;

/// The file at a path; nullopt when nothing is there.
std::optional<FileId> file_at(const fs::path& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return FileId(facts.st_dev, facts.st_ino);
}

/// The files that the process has opened to read. Like the table of its descriptors there is one of
/// it: an output must not replace an input, wherever in the program that was opened.
class Inputs {
 public:
  void add(const FileId& file, const fs::path& path) {
    const std::scoped_lock lock(mutex_);
    paths_.insert_or_assign(file, path);
  }
  bool contains(const FileId& file) {
    const std::scoped_lock lock(mutex_);
    const auto found = paths_.find(file);
    // A new file may have the number of one that was removed.
    return found != paths_.end() && file_at(found->second) == file;
  }

 private:
  std::mutex mutex_;
  std::map<FileId, fs::path> paths_;
};

Inputs& inputs() {
  static Inputs all;
  return all;
}

}  // namespace

UserError cannot_read_error(const fs::path& path, const std::string& why) {
  return {"cannot read '" + path.string() + "'", why + unexpanded_note(path),
          "check the path and that the file may be read", ExitCode::kMissingInput};
}

UserError cannot_write_error(const fs::path& path, const std::string& why) {
  return {"cannot write '" + path.string() + "'", why,
          "check that the folder exists, may be written and has room"};
}

OpenFile open_to_read(const fs::path& path, FileKind kind) {
  const int wait = kind == FileKind::kRegular ? O_NONBLOCK : 0;
  OpenFile open{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | wait))};
  if (!open.file.is_open() || ::fstat(open.file.number(), &open.facts) != 0)
    throw cannot_read_error(path, std::strerror(errno));
  const mode_t mode = open.facts.st_mode;
  if (S_ISDIR(mode)) throw cannot_read_error(path, "it is a folder");
  if (S_ISCHR(mode) || S_ISBLK(mode))
    throw cannot_read_error(path, "it is a device, which may have no end");
  if (kind == FileKind::kRegular && !S_ISREG(mode))
    throw cannot_read_error(path, "it is not a regular file");
  if (S_ISREG(mode)) inputs().add({open.facts.st_dev, open.facts.st_ino}, path);
  return open;
}

Descriptor open_to_write(const fs::path& path, int flags) {
  // O_NONBLOCK: a pipe without a reader is an error, and one with a reader is seen below.
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0666));
  struct stat facts{};
  if (!file.is_open() && errno == ENXIO) throw cannot_write_error(path, "it is not a regular file");
  if (!file.is_open() || ::fstat(file.number(), &facts) != 0)
    throw cannot_write_error(path, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) throw cannot_write_error(path, "it is not a regular file");
  return file;
}

bool is_input(const fs::path& path) {
  const std::optional<FileId> file = file_at(path);
  return file && inputs().contains(*file);
}

}  // namespace tessera
