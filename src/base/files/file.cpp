#include "base/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/files/missing_path.h"
#include "base/units.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxLinks = 40;         // as the kernel has it
constexpr int kMaxNamesTried = 1000;  // for a temporary file

[[noreturn]] void cannot_read(const fs::path& path, const std::string& why) {
  throw UserError("cannot read '" + path.string() + "'", why + unexpanded_note(path),
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

struct FileWriter::State {
  fs::path target;
  fs::path temporary;  // renamed to `target` at the end; empty: the target is written in place
  Descriptor file{-1};
};

FileWriter::FileWriter(const fs::path& path) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.target = followed(path);
  struct stat before{};
  const bool exists = ::stat(state.target.c_str(), &before) == 0;
  if (exists && S_ISDIR(before.st_mode)) cannot_write(path, "Is a directory");
  if (exists && !S_ISREG(before.st_mode)) {  // it must not become a file
    state.file = Descriptor(::open(state.target.c_str(), O_WRONLY | O_CLOEXEC));
    if (!state.file.is_open()) cannot_write(path, std::strerror(errno));
    return;
  }
  if (exists && ::access(state.target.c_str(), W_OK) != 0)
    cannot_write(state.target, std::strerror(errno));
  std::tie(state.temporary, state.file) = make_temporary(state.target.parent_path());
  if (!state.file.is_open()) cannot_write(state.target, std::strerror(errno));
  if (!exists) return;
  // Only root may keep the owner of another user's file.
  [[maybe_unused]] const int kept = ::fchown(state.file.number(), before.st_uid, before.st_gid);
  ::fchmod(state.file.number(), before.st_mode & 07777);
}

FileWriter::~FileWriter() {
  if (!state_->temporary.empty()) ::unlink(state_->temporary.c_str());
}

void FileWriter::append(std::string_view text) {
  if (!write_all(state_->file, text)) cannot_write(state_->target, std::strerror(errno));
}

void FileWriter::finish() {
  State& state = *state_;
  if (!state.file.close() ||
      (!state.temporary.empty() && ::rename(state.temporary.c_str(), state.target.c_str()) != 0))
    cannot_write(state.target, std::strerror(errno));
  state.temporary.clear();
}

void write_file(const fs::path& path, std::string_view text) {
  FileWriter file(path);
  file.append(text);
  file.finish();
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

bool path_exists(const fs::path& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

fs::path program_file() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/exe", unknown);
}

}  // namespace tessera
