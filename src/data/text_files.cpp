#include "data/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "data/vocabulary.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLookedAt = 4096;
/// Bytes that are read beyond the limit: a UTF-8 character that the cut divides extends at most
/// this far.
constexpr size_t kBeyond = 3;

/// Counts of the files, for the message that there is no text.
struct Tally {
  int empty = 0;
  int not_text = 0;
};

[[noreturn]] void cannot_read(const fs::path& path, const std::string& why) {
  throw UserError("cannot read text from '" + path.string() + "'", why,
                  "check the path and that it may be read; a relative path starts at the folder in "
                  "which the program was started",
                  ExitCode::kMissingInput);
}

void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code dangling;  // a dangling link is not a file
    if (entry->is_regular_file(dangling)) files.push_back(entry->path().lexically_normal());
  }
  if (error) cannot_read(folder, error.message());
}

std::vector<fs::path> files_of(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found)
      cannot_read(path, "there is no such file or folder");
    if (error) cannot_read(path, error.message());
    if (fs::is_directory(status))
      add_folder(path, files);
    else if (fs::is_regular_file(status))
      files.push_back(path.lexically_normal());
    else
      cannot_read(path, "it is neither a file nor a folder");
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

/// Reads up to `count` further bytes of the stream.
std::string read_some(std::ifstream& stream, size_t count, const fs::path& path) {
  std::string bytes(count, '\0');
  stream.read(bytes.data(), count);
  if (stream.bad()) cannot_read(path, "reading failed");
  bytes.resize(stream.gcount());
  return bytes;
}

void append_file(const fs::path& path, size_t max_bytes, std::string& text, Tally& tally) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) cannot_read(path, "it cannot be opened");
  std::string start = read_some(stream, kLookedAt, path);
  if (start.empty()) ++tally.empty;
  if (start.find('\0') != std::string::npos) {
    ++tally.not_text;
    return;
  }
  text += start;
  constexpr size_t kAtOnce = size_t{1} << 20;
  while (stream && text.size() < max_bytes)
    text += read_some(stream, std::min(kAtOnce, max_bytes - text.size()), path);
}

/// Cuts `text`, which is longer, to `max_bytes`, or to up to three bytes less, so that it ends with
/// a whole UTF-8 character.
void cut(std::string& text, size_t max_bytes) {
  size_t end = max_bytes;
  while (end > 0 && max_bytes - end < kBeyond && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80)
    --end;
  const bool divides =
      static_cast<size_t>(utf8_length(std::string_view(text).substr(end))) > max_bytes - end;
  text.resize(divides && end > 0 ? end : max_bytes);
}

[[noreturn]] void no_text(const std::vector<fs::path>& paths, size_t files, const Tally& tally) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back("'" + path.string() + "'");
  throw UserError(
      names.empty() ? "no file or folder of text is named"
                    : "there is no text in " + join(names, ", "),
      fmt::format("files found: {}; empty: {}; not text (a zero byte in the first {}): {}", files,
                  tally.empty, kLookedAt, tally.not_text),
      "name files of text, or folders that hold them", ExitCode::kBadData);
}

}  // namespace

std::string read_text(const std::vector<fs::path>& paths, int64_t max_bytes) {
  ensure(max_bytes >= 1, "at least one byte of text is asked for");
  const size_t limit = max_bytes;
  const std::vector<fs::path> files = files_of(paths);
  std::string text;
  Tally tally;
  for (size_t i = 0; i < files.size() && text.size() < limit + kBeyond; ++i)
    append_file(files[i], limit + kBeyond, text, tally);
  if (text.size() > limit) cut(text, limit);
  if (text.empty()) no_text(paths, files.size(), tally);
  return text;
}

}  // namespace tessera
