#include "base/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/files/missing_path.h"

namespace tessera {
namespace {

[[noreturn]] void cannot_map(const std::filesystem::path& path, int reason) {
  throw UserError("cannot read '" + path.string() + "'",
                  std::strerror(reason) + unexpanded_note(path),
                  "check the path and that the file may be read", ExitCode::kMissingInput);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat facts{};
  if (file.number() < 0 || fstat(file.number(), &facts) != 0) cannot_map(path, errno);
  if (S_ISDIR(facts.st_mode)) cannot_map(path, EISDIR);
  if (facts.st_size == 0) return;
  const auto size = static_cast<size_t>(facts.st_size);
  void* const place = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (place == MAP_FAILED) cannot_map(path, errno);
  bytes_ = {static_cast<const char*>(place), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

}  // namespace tessera
