#include "base/files/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files/file.h"
#include "base/units.h"

namespace tessera {
namespace {

constexpr int kGzipFormat = 16 + MAX_WBITS, kRawFormat = -MAX_WBITS;

/// The state of zlib, which the destructor frees.
class Inflater {
 public:
  Inflater(std::string_view bytes, int format, const std::string& name)
      : end_(bytes.data() + bytes.size()), name_(name) {
    ensure(inflateInit2(&state_, format) == Z_OK, "zlib starts");
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  }
  ~Inflater() { inflateEnd(&state_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Appends the content of one stream. `text` never has a capacity above the limit.
  void stream(std::string& text, int64_t limit) {
    while (piece(text, limit)) {
    }
  }
  /// Prepares for a further stream.
  void restart() { inflateReset(&state_); }

  /// The bytes after the streams that were read.
  std::string_view rest() const {
    const char* begin = reinterpret_cast<const char*>(state_.next_in);
    return {begin, static_cast<size_t>(end_ - begin)};
  }
  void refuse_rest() const {
    if (!rest().empty())
      refuse_data("cannot decompress '" + name_ + "'",
                  fmt::format("{} bytes follow the end of the compressed data", rest().size()),
                  "the file is damaged: fetch it again");
  }

 private:
  ///   returns  false at the end of the stream
  bool piece(std::string& text, int64_t limit) {
    std::array<char, 1 << 16> piece;
    state_.avail_in = static_cast<uInt>(std::min<size_t>(rest().size(), 1 << 30));
    state_.next_out = reinterpret_cast<Bytef*>(piece.data());
    state_.avail_out = piece.size();
    const int code = inflate(&state_, Z_NO_FLUSH);
    append(text, {piece.data(), piece.size() - state_.avail_out}, limit);
    if (code != Z_OK && code != Z_STREAM_END)
      refuse_data("cannot decompress '" + name_ + "'",
                  code == Z_BUF_ERROR || !state_.msg ? "unexpected end of file" : state_.msg,
                  "the file is damaged or cut off: fetch it again");
    return code == Z_OK;
  }

  void append(std::string& text, std::string_view piece, int64_t limit) const {
    const size_t size = text.size() + piece.size(), largest = static_cast<size_t>(limit);
    if (size > largest)
      refuse_data("'" + name_ + "' decompresses to more than " + to_text(Bytes(limit)),
                  "this is the limit of compressed files",
                  "store it uncompressed, when it has that size");
    if (size > text.capacity())
      text.reserve(std::min(std::max(size, 2 * text.capacity()), largest));
    text.append(piece);
  }

  z_stream state_{};
  const char* end_;
  const std::string& name_;
};

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string gunzip(std::string_view bytes, const std::string& name, int64_t limit) {
  std::string text;
  Inflater inflater(bytes, kGzipFormat, name);
  inflater.stream(text, limit);
  while (is_gzip(inflater.rest())) {
    inflater.restart();
    inflater.stream(text, limit);
  }
  inflater.refuse_rest();
  return text;
}

std::string inflate_raw(std::string_view bytes, const std::string& name, int64_t limit) {
  std::string text;
  Inflater inflater(bytes, kRawFormat, name);
  inflater.stream(text, limit);
  inflater.refuse_rest();
  return text;
}

std::string read_inflated(const std::filesystem::path& path) {
  std::string bytes = read_file(path);
  return is_gzip(bytes) ? gunzip(bytes, path.string()) : bytes;
}

}  // namespace tessera
