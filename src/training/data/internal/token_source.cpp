#include "training/data/internal/token_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

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

TokenSourcePtr tokens_of_range(TokenSourcePtr whole, Range range) {
  return std::make_shared<const TokenRange>(std::move(whole), range);
}

}  // namespace tessera
