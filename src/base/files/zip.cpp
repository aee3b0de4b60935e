#include "base/files/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/files/gzip.h"

namespace tessera {
namespace {

constexpr std::string_view kLocalHeader = "PK\3\4", kEntry = "PK\1\2", kEnd = "PK\5\6",
                           kLargeEnd = "PK\6\6", kLargeEndLocator = "PK\6\7";
constexpr int64_t kLocalHeaderBytes = 30, kEntryBytes = 46, kEndBytes = 22, kLargeEndBytes = 56,
                  kLocatorBytes = 20, kMaxComment = 0xffff;
/// Numbers that stand for "see the fields of 64 bits".
constexpr int64_t kLarge16 = 0xffff, kLarge32 = 0xffffffff;
constexpr uint64_t kLargeSizes = 1, kEncrypted = 1, kStored = 0, kDeflated = 8;

}  // namespace

bool is_zip(std::string_view bytes) {
  return bytes.starts_with(kLocalHeader) || bytes.starts_with(kEnd);
}

void ZipArchive::refuse(const std::string& why) const {
  throw UserError("'" + name_ + "' is no ZIP archive that can be read", why,
                  "write it with numpy.savez or numpy.savez_compressed, or copy it again",
                  ExitCode::kBadData);
}

uint64_t ZipArchive::number(int64_t at, int64_t size) const {
  if (at < 0 || at > std::ssize(bytes_) - size)
    refuse(fmt::format("it is cut off: a number at offset {} is outside of its {} bytes", at,
                       bytes_.size()));
  uint64_t value = 0;
  for (int64_t i = size - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes_[at + i]);
  return value;
}

int64_t ZipArchive::offset(int64_t at, int64_t size) const {
  const uint64_t value = number(at, size);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    refuse(fmt::format("the number at offset {} is too large", at));
  return static_cast<int64_t>(value);
}

bool ZipArchive::has_signature(int64_t at, std::string_view signature) const {
  return at >= 0 && at <= std::ssize(bytes_) &&
         bytes_.compare(at, signature.size(), signature) == 0;
}

ZipArchive::ZipArchive(std::string bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {
  const Directory directory = find_directory();
  int64_t at = directory.begin;
  std::set<std::string_view> names;
  for (int64_t i = 0; i < directory.entries; ++i) members_.push_back(entry(at, directory.end));
  for (const ZipMember& member : members_)
    if (!names.insert(member.name).second)
      refuse("two of its members have the name '" + member.name + "'");
  if (at != directory.end) refuse("its central directory has another length than it says");
}

ZipArchive::Directory ZipArchive::find_directory() const {
  const int64_t last = std::ssize(bytes_) - kEndBytes;
  for (int64_t at = last; at >= std::max<int64_t>(last - kMaxComment, 0); --at) {
    if (!has_signature(at, kEnd) || offset(at + 20, 2) != last - at) continue;
    Directory found{offset(at + 10, 2), offset(at + 16, 4), 0};
    const int64_t size = offset(at + 12, 4);
    if (found.entries == kLarge16 || found.begin == kLarge32 || size == kLarge32)
      return find_large_directory(at);
    if (offset(at + 4, 2) != 0 || offset(at + 8, 2) != found.entries)
      refuse("it is divided over several files");
    found.end = found.begin + size;
    if (found.end > at) refuse("its central directory ends after the record that names it");
    return found;
  }
  refuse("it does not end with the record of a central directory: it may be cut off");
}

ZipArchive::Directory ZipArchive::find_large_directory(int64_t end_record) const {
  const int64_t locator = end_record - kLocatorBytes;
  if (!has_signature(locator, kLargeEndLocator))
    refuse("it lacks the locator of its 64-bit record");
  const int64_t at = offset(locator + 8, 8);
  if (at > locator - kLargeEndBytes || !has_signature(at, kLargeEnd))
    refuse("it lacks the 64-bit record of its central directory");
  if (offset(at + 16, 4) != 0 || offset(at + 24, 8) != offset(at + 32, 8))
    refuse("it is divided over several files");
  const int64_t size = offset(at + 40, 8), begin = offset(at + 48, 8);
  if (begin > at || size > at - begin)
    refuse("its central directory ends after the record that names it");
  return {offset(at + 32, 8), begin, begin + size};
}

ZipMember ZipArchive::entry(int64_t& at, int64_t end) const {
  if (at > end - kEntryBytes || !has_signature(at, kEntry))
    refuse(fmt::format("there is no entry of its central directory at offset {}", at));
  const int64_t name_size = offset(at + 28, 2), extra_size = offset(at + 30, 2),
                comment_size = offset(at + 32, 2), name_at = at + kEntryBytes;
  const int64_t next = name_at + name_size + extra_size + comment_size;
  if (next > end) refuse(fmt::format("the entry at offset {} is longer than its directory", at));
  ZipMember member{.name = bytes_.substr(name_at, name_size),
                   .is_deflated = number(at + 10, 2) == kDeflated,
                   .crc = static_cast<uint32_t>(number(at + 16, 4)),
                   .packed_size = offset(at + 20, 4),
                   .size = offset(at + 24, 4),
                   .header_offset = offset(at + 42, 4)};
  if (number(at + 8, 2) & kEncrypted) refuse("its member '" + member.name + "' is encrypted");
  if (!member.is_deflated && number(at + 10, 2) != kStored)
    refuse(
        fmt::format("its member '{}' is compressed by method {}; stored (0) and deflated (8) "
                    "ones are read",
                    member.name, number(at + 10, 2)));
  read_large_sizes(name_at + name_size, name_at + name_size + extra_size, member);
  at = next;
  return member;
}

void ZipArchive::read_large_sizes(int64_t begin, int64_t end, ZipMember& member) const {
  for (int64_t at = begin; at + 4 <= end;) {
    const uint64_t kind = number(at, 2);
    const int64_t field_end = at + 4 + offset(at + 2, 2);
    if (field_end > end) refuse("an extra field of '" + member.name + "' is longer than its entry");
    at += 4;
    for (int64_t* value : {&member.size, &member.packed_size, &member.header_offset}) {
      if (kind != kLargeSizes || *value != kLarge32) continue;
      if (at + 8 > field_end) refuse("the 64-bit sizes of '" + member.name + "' are cut off");
      *value = offset(at, 8);
      at += 8;
    }
    at = field_end;
  }
}

std::string ZipArchive::read(const ZipMember& member) const {
  const int64_t header = member.header_offset;
  if (!has_signature(header, kLocalHeader))
    refuse(fmt::format("the header of '{}' is not at offset {}", member.name, header));
  const int64_t name_size = offset(header + 26, 2);
  const int64_t begin = header + kLocalHeaderBytes + name_size + offset(header + 28, 2);
  if (bytes_.compare(header + kLocalHeaderBytes, name_size, member.name) != 0)
    refuse("the header of '" + member.name + "' has another name");
  if (begin > std::ssize(bytes_) || member.packed_size > std::ssize(bytes_) - begin)
    refuse("its member '" + member.name + "' ends after its end");
  const std::string_view packed = std::string_view(bytes_).substr(begin, member.packed_size);
  const std::string content =
      member.is_deflated ? inflate_raw(packed, name_ + ":" + member.name) : std::string(packed);
  if (std::ssize(content) != member.size)
    refuse(fmt::format("its member '{}' has {} bytes, and its directory says {}", member.name,
                       content.size(), member.size));
  if (crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()) != member.crc)
    refuse("the CRC-32 of its member '" + member.name + "' is wrong");
  return content;
}

}  // namespace tessera
