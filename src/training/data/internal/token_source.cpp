#include "training/data/internal/token_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/stable_file.h"

namespace tessera {
namespace {

class MemoryTokens : public TokenSource {
 public:
  explicit MemoryTokens(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  int64_t size() const override { return std::ssize(tokens_); }
  void copy(int64_t begin, std::span<int32_t> to) const override {
    std::copy_n(tokens_.begin() + begin, to.size(), to.begin());
  }

 private:
  std::vector<int32_t> tokens_;
};

class ByteTokens : public TokenSource {
 public:
  explicit ByteTokens(std::shared_ptr<const TextFiles> text) : text_(std::move(text)) {}
  int64_t size() const override { return text_->size(); }
  void copy(int64_t begin, std::span<int32_t> to) const override {
    text_->visit({begin, begin + std::ssize(to)},
                 [&, at = to.begin()](std::string_view part) mutable {
                   at = std::transform(part.begin(), part.end(), at,
                                       [](char byte) { return static_cast<uint8_t>(byte); });
                 });
  }

 private:
  std::shared_ptr<const TextFiles> text_;
};

class NumberTokens : public TokenSource {
 public:
  NumberTokens(const std::vector<std::filesystem::path>& files, int bits) : bytes_(bits / 8) {
    ensure(bits == 16 || bits == 32, "tokens of 16 or 32 bits");
    for (const std::filesystem::path& path : files) {
      parts_.push_back({std::make_unique<StableFile>(path, StableFile::Descriptors::kNone), size_});
      const int64_t bytes = parts_.back().file->size();
      if (bytes % bytes_ != 0)
        throw UserError("'" + path.string() + "' has " + std::to_string(bytes) + " bytes",
                        "tokens of " + std::to_string(bits) + " bits fill the file",
                        "set data.bits to those of the file, or copy it again", ExitCode::kBadData);
      size_ += bytes / bytes_;
    }
  }
  int64_t size() const override { return size_; }
  void copy(int64_t begin, std::span<int32_t> to) const override {
    for (size_t part = 0; part < parts_.size(); ++part) {
      const int64_t from = parts_[part].begin;
      const int64_t end = part + 1 < parts_.size() ? parts_[part + 1].begin : size_;
      const int64_t first = std::max(begin, from);
      const int64_t last = std::min(begin + std::ssize(to), end);
      if (first < last)
        read(*parts_[part].file, first - from,
             to.subspan(static_cast<size_t>(first - begin), static_cast<size_t>(last - first)));
    }
  }

 private:
  struct Part {
    std::unique_ptr<StableFile> file;
    int64_t begin = 0;  // its first token
  };

  void read(const StableFile& file, int64_t first, std::span<int32_t> to) const {
    std::string bytes(to.size() * static_cast<size_t>(bytes_), '\0');
    file.read_at(first * bytes_, bytes);
    for (size_t i = 0; i < to.size(); ++i) {
      uint32_t token = 0;
      for (size_t b = 0; b < static_cast<size_t>(bytes_); ++b)
        token |= uint32_t{static_cast<uint8_t>(bytes[i * static_cast<size_t>(bytes_) + b])}
                 << (8 * b);
      to[i] = static_cast<int32_t>(token);  // below 0 from 2^31 on, which no vocabulary has
    }
  }

  int64_t bytes_, size_ = 0;
  std::vector<Part> parts_;
};

class TokenRange : public TokenSource {
 public:
  TokenRange(TokenSourcePtr whole, Range range) : whole_(std::move(whole)), range_(range) {
    ensure(range_.begin >= 0 && range_.begin <= range_.end && range_.end <= whole_->size(),
           "a range of the tokens");
  }
  int64_t size() const override { return range_.size(); }
  void copy(int64_t begin, std::span<int32_t> to) const override {
    whole_->copy(range_.begin + begin, to);
  }

 private:
  TokenSourcePtr whole_;
  Range range_;
};

}  // namespace

TokenSourcePtr tokens_in_memory(std::vector<int32_t> tokens) {
  return std::make_shared<const MemoryTokens>(std::move(tokens));
}

TokenSourcePtr tokens_of_bytes(std::shared_ptr<const TextFiles> text) {
  return std::make_shared<const ByteTokens>(std::move(text));
}

TokenSourcePtr tokens_of_numbers(const std::vector<std::filesystem::path>& files, int bits) {
  return std::make_shared<const NumberTokens>(files, bits);
}

TokenSourcePtr tokens_of_range(TokenSourcePtr whole, Range range) {
  return std::make_shared<const TokenRange>(std::move(whole), range);
}

}  // namespace tessera
