#include "training/data/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/files/missing_path.h"
#include "base/text/text.h"
#include "training/data/vocabulary.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLookedAt = 4096;
/// A UTF-8 character that the limit divides begins at most this many bytes before it.
constexpr int64_t kBefore = 3;
/// Files of this size and more are mapped, while there are fewer mappings than kMaxMappings.
constexpr int64_t kMapped = 64 << 10;
constexpr size_t kMaxMappings = 30'000;

[[noreturn]] void cannot_read(const fs::path& path, const std::string& why) {
  throw UserError("cannot read text from '" + path.string() + "'", why + unexpanded_note(path),
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

/// The bytes of `text` that a limit of `most` bytes leaves: with a whole character at the end.
int64_t cut(std::string_view text, int64_t largest) {
  if (std::ssize(text) <= largest) return std::ssize(text);
  int64_t end = largest;
  while (end > 0 && largest - end < kBefore && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80)
    --end;
  const bool divides = utf8_length(text.substr(end)) > largest - end;
  return divides && end > 0 ? end : largest;
}

[[noreturn]] void no_text(const std::vector<fs::path>& paths, size_t files, int empty, int others) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back("'" + path.string() + "'");
  throw UserError(
      names.empty() ? "no file or folder of text is named"
                    : "there is no text in " + join(names, ", "),
      fmt::format("files found: {}; empty: {}; not text (a zero byte in the first {}): {}", files,
                  empty, kLookedAt, others),
      "name files of text, or folders that hold them", ExitCode::kBadData);
}

}  // namespace

TextFiles::TextFiles(const std::vector<fs::path>& paths, int64_t max_bytes) {
  ensure(max_bytes >= 0, "a limit of bytes of text, or 0");
  const int64_t limit = max_bytes > 0 ? max_bytes : std::numeric_limits<int64_t>::max();
  const std::vector<fs::path> files = files_of(paths);
  for (const fs::path& file : files) add(file, limit - size_);
  if (size_ == 0) no_text(paths, files.size(), empty_files_, other_files_);
}

void TextFiles::add(const fs::path& path, int64_t largest) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) cannot_read(path, "it cannot be opened");
  std::string text = read_some(stream, kLookedAt, path);
  if (text.empty()) ++empty_files_;
  if (text.find('\0') != std::string::npos) {
    ++other_files_;
    return;
  }
  std::error_code unknown;
  const auto size = static_cast<int64_t>(fs::file_size(path, unknown));
  if (largest == 0) {
    left_out_ += unknown ? std::ssize(text) : size;
    return;
  }
  if (!text.empty()) begins_.insert_or_assign(size_, path);
  if (!unknown && size >= kMapped && mapped_.size() < kMaxMappings) {
    const std::string_view bytes = mapped_.emplace_back(path).bytes();
    const int64_t used = cut(bytes, largest);
    left_out_ += std::ssize(bytes) - used;
    parts_.push_back({size_, bytes.substr(0, used)});
    size_ += used;
    return;
  }
  while (stream) text += read_some(stream, kMapped, path);
  const int64_t used = cut(text, largest);
  left_out_ += std::ssize(text) - used;
  text.resize(used);
  add_loaded(std::move(text));
}

void TextFiles::add_loaded(std::string text) {
  if (text.empty()) return;
  // A string that has room does not move its bytes, so small files share blocks.
  constexpr size_t kBlock = size_t{1} << 20;
  const bool has_room =
      !loaded_.empty() && loaded_.back().capacity() - loaded_.back().size() >= text.size();
  if (!has_room) loaded_.emplace_back().reserve(std::max(kBlock, text.size()));
  std::string& block = loaded_.back();
  const bool follows =
      has_room && !parts_.empty() &&
      parts_.back().bytes.data() + parts_.back().bytes.size() == block.data() + block.size();
  const size_t begin = block.size();
  block += text;
  if (follows)
    parts_.back().bytes = {parts_.back().bytes.data(), parts_.back().bytes.size() + text.size()};
  else
    parts_.push_back({size_, std::string_view(block).substr(begin)});
  size_ += std::ssize(text);
}

void TextFiles::visit(Range range, const std::function<void(std::string_view)>& visit) const {
  ensure(0 <= range.begin && range.begin <= range.end && range.end <= size_, "a range of the text");
  auto part = std::upper_bound(parts_.begin(), parts_.end(), range.begin,
                               [](int64_t at, const Part& next) { return at < next.begin; });
  if (part != parts_.begin()) --part;
  for (; !range.empty(); ++part) {
    const int64_t from = range.begin - part->begin;
    const int64_t count = std::min(range.size(), std::ssize(part->bytes) - from);
    visit(part->bytes.substr(from, count));
    range.begin += count;
  }
}

std::pair<fs::path, int64_t> TextFiles::file_at(int64_t offset) const {
  ensure(0 <= offset && offset < size_, "a place in the text");
  const auto& [begin, path] = *std::prev(begins_.upper_bound(offset));
  return {path, offset - begin};
}

std::string TextFiles::text() const {
  std::string whole;
  whole.reserve(size_);
  visit({0, size_}, [&](std::string_view part) { whole += part; });
  return whole;
}

std::string read_text(const std::vector<fs::path>& paths, int64_t max_bytes) {
  return TextFiles(paths, max_bytes).text();
}

}  // namespace tessera
