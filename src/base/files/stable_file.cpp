#include "base/files/stable_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/open_file.h"

namespace tessera {
namespace {

[[noreturn]] void changed(const std::filesystem::path& path, const std::string& how) {
  throw UserError("'" + path.string() + "' has changed since this command opened it", how,
                  "let no program write into the data of a run: give the run a copy, and put new "
                  "data into new files",
                  ExitCode::kBadData);
}

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

StableFile::StableFile(std::filesystem::path path, Descriptors held) : path_(std::move(path)) {
  OpenFile open = open_to_read(path_, FileKind::kRegular);
  size_ = open.facts.st_size;
  identity_ = {open.facts.st_dev, open.facts.st_ino, nanoseconds(open.facts.st_mtim)};
  if (held == Descriptors::kOne) file_ = std::move(open.file);
}

void StableFile::read_at(int64_t offset, std::span<char> out) const {
  ensure(offset >= 0 && offset + std::ssize(out) <= size_, "a range of the file");
  const Descriptor opened =
      file_.is_open() ? Descriptor() : open_to_read(path_, FileKind::kRegular).file;
  const int file = file_.is_open() ? file_.number() : opened.number();
  while (!out.empty()) {
    const ssize_t got = ::pread(file, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot_read_error(path_, std::strerror(errno));
    if (got == 0) break;  // it is shorter now, as its facts tell
    offset += got;
    out = out.subspan(got);
  }
  // After the read: what was read is then of the file as it was opened.
  struct stat now{};
  if (::fstat(file, &now) != 0) throw cannot_read_error(path_, std::strerror(errno));
  if (now.st_size != size_)
    changed(path_,
            "it has " + std::to_string(now.st_size) + " bytes, and had " + std::to_string(size_));
  if (identity_ != Identity{now.st_dev, now.st_ino, nanoseconds(now.st_mtim)})
    changed(path_, "another program has written into it, or put another file in its place");
  ensure(out.empty(), "a file of an unchanged size has all its bytes");
}

}  // namespace tessera
