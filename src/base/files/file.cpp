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

#include "base/files/descriptor.h"
#include "base/files/open_file.h"
#include "base/units.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxLinks = 40;         // as the kernel has it
constexpr int kMaxNamesTried = 1000;  // for a temporary file

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

namespace {

std::string read_all(const fs::path& path, const OpenFile& open, int64_t pipe_limit) {
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const ssize_t got = ::read(open.file.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot_read_error(path, std::strerror(errno));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (!S_ISREG(open.facts.st_mode) && std::ssize(text) > pipe_limit)
      throw cannot_read_error(path, "it is a pipe that gives more than " +
                                        to_text(Bytes(pipe_limit)) + ", the limit of pipes");
  }
}

}  // namespace

std::string read_file(const fs::path& path, int64_t pipe_limit) {
  return read_all(path, open_to_read(path, FileKind::kRegularOrPipe), pipe_limit);
}

std::string read_own_file(const fs::path& path) {
  return read_all(path, open_to_read(path, FileKind::kRegular), 0);
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
  if (exists && S_ISDIR(before.st_mode)) throw cannot_write_error(path, "Is a directory");
  if (exists && !S_ISREG(before.st_mode)) {  // it must not become a file
    state.file = Descriptor(::open(state.target.c_str(), O_WRONLY | O_CLOEXEC));
    if (!state.file.is_open()) throw cannot_write_error(path, std::strerror(errno));
    return;
  }
  if (exists && ::access(state.target.c_str(), W_OK) != 0)
    throw cannot_write_error(state.target, std::strerror(errno));
  std::tie(state.temporary, state.file) = make_temporary(state.target.parent_path());
  if (!state.file.is_open()) throw cannot_write_error(state.target, std::strerror(errno));
  if (!exists) return;
  // Only root may keep the owner of another user's file.
  [[maybe_unused]] const int kept = ::fchown(state.file.number(), before.st_uid, before.st_gid);
  ::fchmod(state.file.number(), before.st_mode & 07777);
}

FileWriter::~FileWriter() {
  if (!state_->temporary.empty()) ::unlink(state_->temporary.c_str());
}

void FileWriter::append(std::string_view text) {
  if (!write_all(state_->file, text))
    throw cannot_write_error(state_->target, std::strerror(errno));
}

void FileWriter::finish() {
  State& state = *state_;
  if (!state.file.close() ||
      (!state.temporary.empty() && ::rename(state.temporary.c_str(), state.target.c_str()) != 0))
    throw cannot_write_error(state.target, std::strerror(errno));
  state.temporary.clear();
}

void write_file(const fs::path& path, std::string_view text) {
  FileWriter file(path);
  file.append(text);
  file.finish();
}

void write_own_file(const fs::path& path, std::string_view text) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    throw cannot_write_error(path, "it is not a regular file");
  write_file(path, text);
}

AppendedFile::AppendedFile(fs::path path)
    : path_(std::move(path)), file_(open_to_write(path_, O_APPEND)) {}

void AppendedFile::append(std::string_view text) {
  if (!write_all(file_, text)) throw cannot_write_error(path_, std::strerror(errno));
}

void check_can_write(const fs::path& path) {
  const fs::path target = followed(path);
  struct stat status{};
  if (::stat(target.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) throw cannot_write_error(path, "Is a directory");
    if (::access(target.c_str(), W_OK) != 0) throw cannot_write_error(path, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) return;
  } else if (errno != ENOENT) {  // a name that is too long, or a link to itself
    throw cannot_write_error(path, std::strerror(errno));
  }
  const auto [temporary, file] = make_temporary(target.parent_path());
  if (!file.is_open()) throw cannot_write_error(path, std::strerror(errno));
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
