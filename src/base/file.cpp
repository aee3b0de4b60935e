#include "base/file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "base/error.h"

namespace tessera {

std::string read_file(const std::filesystem::path& path) {
  std::error_code unknown;
  const bool is_folder = std::filesystem::is_directory(path, unknown);
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (stream && !is_folder) text << stream.rdbuf();
  if (!stream || is_folder) {
    const std::string why = is_folder ? "it is a folder" : std::strerror(errno ? errno : ENOENT);
    throw UserError("cannot read '" + path.string() + "'", why,
                    "check the path and that the file may be read", ExitCode::kMissingInput);
  }
  return text.str();
}

namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path, const std::string& why) {
  throw UserError("cannot write '" + path.string() + "'", why,
                  "check that the folder exists, may be written and has room");
}

}  // namespace

void write_file(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path aside = path.string() + ".tmp";
  errno = 0;
  {
    std::ofstream stream(aside, std::ios::binary | std::ios::trunc);
    stream.write(text.data(), std::ssize(text));
    stream.flush();
    if (!stream) cannot_write(path, std::strerror(errno ? errno : EIO));
  }
  std::error_code error;
  std::filesystem::rename(aside, path, error);
  if (!error) return;
  std::error_code ignored;  // the first failure is the one to report
  std::filesystem::remove(aside, ignored);
  cannot_write(path, error.message());
}

void check_writable(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) cannot_write(path, std::strerror(EISDIR));
  const std::filesystem::path aside = path.string() + ".tmp";
  errno = 0;
  if (!std::ofstream(aside, std::ios::binary | std::ios::trunc))
    cannot_write(path, std::strerror(errno ? errno : EIO));
  std::filesystem::remove(aside, unknown);
}

}  // namespace tessera
