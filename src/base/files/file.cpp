#include "base/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/units.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxLinks = 40;         // as the kernel has it
constexpr int kMaxNamesTried = 1000;  // for a temporary file

[[noreturn]] void cannot_read(const fs::path& path, const std::string& why) {
  throw UserError("cannot read '" + path.string() + "'", why,
                  "check the path and that the file may be read", ExitCode::kMissingInput);
}

[[noreturn]] void cannot_write(const fs::path& path, const std::string& why) {
  throw UserError("cannot write '" + path.string() + "'", why,
                  "check that the folder exists, may be written and has room");
}

bool write_all(const Descriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = EIO;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

/// The path that symbolic links lead to, which need not exist.
fs::path followed(fs::path path) {
  std::error_code error;
  for (int links = 0; links < kMaxLinks && fs::is_symlink(path, error); ++links)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

/// A new file in `folder` under a name that no other file has.
std::pair<fs::path, Descriptor> make_temporary(const fs::path& folder) {
  for (int number = 0; number < kMaxNamesTried; ++number) {
    fs::path path =
        folder / (".tessera-" + std::to_string(getpid()) + "-" + std::to_string(number) + ".tmp");
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.is_open() || errno != EEXIST) return {std::move(path), std::move(file)};
  }
  return {fs::path(), Descriptor(-1)};
}

/// Writes into a device or a pipe, which must not become a file.
void write_in_place(const fs::path& path, std::string_view text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open() || !write_all(file, text) || !file.close())
    cannot_write(path, std::strerror(errno));
}

/// Writes another file and renames it to `target`.
///   before  the state of the file that is there; nullptr: none
void replace_file(const fs::path& target, const struct stat* before, std::string_view text) {
  if (before && ::access(target.c_str(), W_OK) != 0) cannot_write(target, std::strerror(errno));
  auto [path, file] = make_temporary(target.parent_path());
  if (!file.is_open()) cannot_write(target, std::strerror(errno));
  if (before) {  // only root may keep the owner of another user's file
    [[maybe_unused]] const int kept = ::fchown(file.number(), before->st_uid, before->st_gid);
    ::fchmod(file.number(), before->st_mode & 07777);
  }
  if (write_all(file, text) && file.close() && ::rename(path.c_str(), target.c_str()) == 0) return;
  const int error = errno;
  ::unlink(path.c_str());
  cannot_write(target, std::strerror(error));
}

}  // namespace

std::string read_file(const fs::path& path, int64_t pipe_limit) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0)
    cannot_read(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) cannot_read(path, "it is a folder");
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
    cannot_read(path, "it is a device, which may have no end");
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path, std::strerror(errno));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (!S_ISREG(status.st_mode) && std::ssize(text) > pipe_limit)
      cannot_read(path, "it is a pipe that gives more than " + to_text(Bytes(pipe_limit)) +
                            ", the limit of pipes");
  }
}

void write_file(const fs::path& path, std::string_view text) {
  const fs::path target = followed(path);
  struct stat status{};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) cannot_write(path, "Is a directory");
  if (exists && !S_ISREG(status.st_mode)) return write_in_place(target, text);
  replace_file(target, exists ? &status : nullptr, text);
}

void check_can_write(const fs::path& path) {
  const fs::path target = followed(path);
  struct stat status{};
  if (::stat(target.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) cannot_write(path, "Is a directory");
    if (::access(target.c_str(), W_OK) != 0) cannot_write(path, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) return;
  }
  const auto [temporary, file] = make_temporary(target.parent_path());
  if (!file.is_open()) cannot_write(path, std::strerror(errno));
  ::unlink(temporary.c_str());
}

}  // namespace tessera
