#include "base/files/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/testing/error.h"

namespace tessera {
namespace {

using error_testing::message_of;

/// One gzip stream.
std::string compressed(const std::string& text) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string bytes(deflateBound(&state, text.size()) + 32, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(bytes.data());
  state.avail_out = static_cast<uInt>(bytes.size());
  deflate(&state, Z_FINISH);
  bytes.resize(state.total_out);
  deflateEnd(&state);
  return bytes;
}

TEST(Gzip, ReadsOneStreamAndSeveral) {
  EXPECT_EQ(gunzip(compressed("abc"), "f"), "abc");
  EXPECT_EQ(gunzip(compressed("abc") + compressed("") + compressed("de"), "f"), "abcde");
  EXPECT_EQ(gunzip(compressed(std::string(300'000, 'x')), "f"), std::string(300'000, 'x'));
}

TEST(Gzip, BytesAfterTheLastStreamAreRefused) {
  EXPECT_EQ(message_of(ExitCode::kBadData, [] { gunzip(compressed("abc") + "xy", "f"); }),
            "cannot decompress 'f'\n"
            "  why: 2 bytes follow the end of the compressed data\n"
            "  fix: the file is damaged: fetch it again");
}

TEST(Gzip, EveryBeginningOfAFileIsRefused) {
  const std::string whole = compressed("some text");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(message_of(ExitCode::kBadData, [&] { gunzip(whole.substr(0, size), "f"); })
                  .find("cannot decompress 'f'"),
              std::string::npos)
        << size;
}

TEST(Gzip, MoreThanTheLimitIsRefused) {
  const std::string bytes = compressed(std::string(1025, '\0'));
  EXPECT_EQ(gunzip(bytes, "f", 1025).size(), 1025u);
  EXPECT_EQ(message_of(ExitCode::kBadData, [&] { gunzip(bytes, "f", 1024); }),
            "'f' decompresses to more than 1 KiB\n"
            "  why: this is the limit of compressed files\n"
            "  fix: store it uncompressed, when it has that size");
  const std::string two = compressed(std::string(600, 'a')) + compressed(std::string(600, 'b'));
  EXPECT_NE(message_of(ExitCode::kBadData, [&] { gunzip(two, "f", 1024); }).find("more than"),
            std::string::npos)
      << "the limit is of all streams together";
}

}  // namespace
}  // namespace tessera
