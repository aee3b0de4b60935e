#include "training/checkpoint/internal/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tessera {

namespace fs = std::filesystem;

void OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) bytes = bytes.subspan(write_some(bytes));
}

void InputFile::read_at(int64_t offset, std::span<std::byte> out) const {
  const int64_t end = offset + std::ssize(out);
  while (!out.empty()) {
    const size_t got = read_some(offset, out);
    if (got == 0)
      throw UserError("'" + path_.string() + "' ends too early",
                      "byte " + std::to_string(end - 1) + " is needed, and it has " +
                          std::to_string(size()) + " bytes",
                      "the file was cut off: fetch or write it again", ExitCode::kBadData);
    offset += got;
    out = out.subspan(got);
  }
}

namespace {

std::string reason_of(int error) {
  return std::strerror(error);
}

class RealOutputFile final : public OutputFile {
 public:
  RealOutputFile(fs::path path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  void sync() override {
    if (::fsync(file_.number()) != 0) throw cannot_write_error(path_, reason_of(errno));
  }

 protected:
  size_t write_some(std::span<const std::byte> bytes) override {
    for (;;) {
      const ssize_t written = ::write(file_.number(), bytes.data(), bytes.size());
      if (written > 0) return written;
      if (written == 0 || errno != EINTR)
        throw cannot_write_error(path_, reason_of(written == 0 ? EIO : errno));
    }
  }

 private:
  fs::path path_;
  Descriptor file_;
};

class RealInputFile final : public InputFile {
 public:
  RealInputFile(const fs::path& path, Descriptor file, int64_t size)
      : InputFile(path), file_(std::move(file)), size_(size) {}
  int64_t size() const override { return size_; }

 protected:
  size_t read_some(int64_t offset, std::span<std::byte> out) const override {
    for (;;) {
      const ssize_t got = ::pread(file_.number(), out.data(), out.size(), offset);
      if (got >= 0) return got;
      if (errno != EINTR) throw cannot_read_error(path(), reason_of(errno));
    }
  }

 private:
  Descriptor file_;
  int64_t size_;
};

}  // namespace

std::unique_ptr<OutputFile> RealFileSystem::create(const fs::path& path) {
  return std::make_unique<RealOutputFile>(path, open_to_write(path, O_TRUNC));
}

std::unique_ptr<InputFile> RealFileSystem::open(const fs::path& path) {
  OpenFile open = open_to_read(path, FileKind::kRegular);
  return std::make_unique<RealInputFile>(path, std::move(open.file), open.facts.st_size);
}

void RealFileSystem::make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw cannot_write_error(path, error.message());
}

void RealFileSystem::rename(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw cannot_write_error(to, error.message());
}

void RealFileSystem::remove(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw cannot_write_error(path, error.message());
}

void RealFileSystem::sync_folder(const fs::path& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() < 0) throw cannot_write_error(path, reason_of(errno));
  // Some network file systems cannot sync a folder and return this error. Their names are then as
  // durable as possible.
  if (::fsync(folder.number()) != 0 && errno != EINVAL && errno != ENOTSUP)
    throw cannot_write_error(path, reason_of(errno));
}

std::vector<std::string> RealFileSystem::list(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) throw cannot_read_error(path, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool RealFileSystem::is_folder(const fs::path& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown);
}

std::string read_whole(FileSystem& files, const fs::path& path) {
  const std::unique_ptr<InputFile> file = files.open(path);
  std::string text(file->size(), '\0');
  file->read_at(0, std::as_writable_bytes(std::span<char>(text)));
  return text;
}

void write_synced(FileSystem& files, const fs::path& path, std::string_view text) {
  const std::unique_ptr<OutputFile> file = files.create(path);
  file->append(text);
  file->sync();
}

fs::path folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

}  // namespace tessera
