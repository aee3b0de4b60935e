// ZIP archives in memory, as far as .npz files use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The entry of a member in the central directory.
struct ZipMember {
  std::string name;
  bool is_deflated = false;
  uint32_t crc = 0;
  int64_t packed_size = 0;  // in the archive
  int64_t size = 0;
  int64_t header_offset = 0;
};

/// Do the bytes begin as those of an archive?
bool is_zip(std::string_view bytes);

/// An archive of one file, with stored and deflated members and sizes of 32 or 64 bits.
///
///   memory  the bytes of the archive, and of the member that is read
///   source  PKWARE, APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3
class ZipArchive {
 public:
  /// Reads the central directory. `name` is for messages.
  ///   throws  UserError (65) when there is none, it is malformed, two members have one name, or a
  ///           member is encrypted or compressed by another method
  ZipArchive(std::string bytes, std::string name);

  /// In the order of the directory.
  const std::vector<ZipMember>& members() const { return members_; }
  /// The content of a member.
  ///   throws  UserError (65) when it is malformed or does not have its size and its CRC-32; when a
  ///           deflated one has more than kMaxInflatedBytes
  std::string read(const ZipMember& member) const;

 private:
  struct Directory {
    int64_t entries = 0, begin = 0, end = 0;
  };
  Directory find_directory() const;
  Directory find_large_directory(int64_t end_record) const;
  ///   at  moved after the entry
  ZipMember entry(int64_t& at, int64_t end) const;
  void read_large_sizes(int64_t begin, int64_t end, ZipMember& member) const;
  /// The little-endian number of `size` bytes.
  uint64_t number(int64_t at, int64_t size) const;
  int64_t offset(int64_t at, int64_t size) const;
  bool has_signature(int64_t at, std::string_view signature) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string bytes_, name_;
  std::vector<ZipMember> members_;
};

}  // namespace tessera
