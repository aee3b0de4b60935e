#include "training/data/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
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

constexpr int64_t kLookedAt = 4096;
/// A UTF-8 character that the limit divides begins at most this many bytes before it.
constexpr int64_t kBefore = 3;
/// Files of this size and more stay where they are, and are read by blocks of this size.
constexpr int64_t kBlock = 64 << 10;
/// The descriptors that are held: a process often has no more than 1,024.
constexpr int kMaxHeldFiles = 256;

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

std::string read_range(const StableFile& file, int64_t begin, int64_t end) {
  std::string bytes(static_cast<size_t>(end - begin), '\0');
  file.read_at(begin, bytes);
  return bytes;
}

/// The bytes of a text that a limit of `largest` bytes leaves: with a whole character at the end.
///   near  the bytes from `begin` on: kBefore before the limit, and a character after it
int64_t cut(std::string_view near, int64_t begin, int64_t largest) {
  const int64_t limit = largest - begin;
  int64_t end = limit;
  while (end > 0 && limit - end < kBefore && (static_cast<uint8_t>(near[end]) & 0xc0) == 0x80)
    --end;
  const bool divides = utf8_length(near.substr(end)) > limit - end;
  return divides && begin + end > 0 ? begin + end : largest;
}

/// The bytes of the file that the limit leaves.
int64_t used_bytes(const StableFile& file, int64_t largest) {
  if (file.size() <= largest) return file.size();
  const int64_t begin = std::max<int64_t>(0, largest - kBefore);
  return cut(read_range(file, begin, std::min(file.size(), largest + kBefore + 1)), begin, largest);
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
  const bool is_held = held_files_ < kMaxHeldFiles;
  const auto file = std::make_shared<const StableFile>(
      path, is_held ? StableFile::Descriptors::kOne : StableFile::Descriptors::kNone);
  const std::string first = read_range(*file, 0, std::min(file->size(), kLookedAt));
  if (first.empty()) ++empty_files_;
  if (first.find('\0') != std::string::npos) {
    ++other_files_;
    return;
  }
  const int64_t used = largest == 0 ? 0 : used_bytes(*file, largest);
  left_out_ += file->size() - used;
  if (used == 0) return;
  begins_.insert_or_assign(size_, path);
  if (file->size() < kBlock) {
    add_loaded(read_range(*file, 0, used));
    return;
  }
  parts_.push_back({.begin = size_, .loaded = {}, .size = used, .file = file});
  size_ += used;
  held_files_ += is_held ? 1 : 0;
}

void TextFiles::add_loaded(std::string text) {
  if (text.empty()) return;
  // A string that has room does not move its bytes, so small files share blocks.
  constexpr size_t kShared = size_t{1} << 20;
  const bool has_room =
      !loaded_.empty() && loaded_.back().capacity() - loaded_.back().size() >= text.size();
  if (!has_room) loaded_.emplace_back().reserve(std::max(kShared, text.size()));
  std::string& block = loaded_.back();
  const bool follows =
      has_room && !parts_.empty() && !parts_.back().file &&
      parts_.back().loaded.data() + parts_.back().loaded.size() == block.data() + block.size();
  const size_t begin = block.size();
  block += text;
  const int64_t count = std::ssize(text);
  if (!follows)
    parts_.push_back(
        {.begin = size_, .loaded = {block.data() + begin, 0}, .size = 0, .file = nullptr});
  Part& part = parts_.back();
  part.size += count;
  part.loaded = {part.loaded.data(), static_cast<size_t>(part.size)};
  size_ += count;
}

void TextFiles::visit(Range range, const std::function<void(std::string_view)>& visit) const {
  ensure(0 <= range.begin && range.begin <= range.end && range.end <= size_, "a range of the text");
  auto part = std::upper_bound(parts_.begin(), parts_.end(), range.begin,
                               [](int64_t at, const Part& next) { return at < next.begin; });
  if (part != parts_.begin()) --part;
  std::string buffer;
  for (; !range.empty(); ++part) {
    int64_t from = range.begin - part->begin;
    int64_t count = std::min(range.size(), part->size - from);
    range.begin += count;
    if (!part->file) {
      visit(part->loaded.substr(from, count));
      continue;
    }
    for (; count > 0; from += std::ssize(buffer), count -= std::ssize(buffer)) {
      buffer.resize(std::min(count, kBlock));
      part->file->read_at(from, buffer);
      visit(buffer);
    }
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
