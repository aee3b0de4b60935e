#include "training/data/internal/token_source.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/testing/test_folder.h"
#include "training/data/text_dataset.h"
#include "training/data/vocabulary.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> token_source_all_of(const TokenSource& tokens) {
  std::vector<int32_t> list(tokens.size());
  tokens.copy(0, list);
  return list;
}

/// A text of 200,000 bytes in a file, which stays there.
class FileTokens : public testing::Test {
 protected:
  FileTokens() {
    for (int i = 0; i < 200'000; ++i)
      text_ += static_cast<char>(i % 100 == 0 ? 200 : i * i % 90 + 9);
    const fs::path path = folder_ / "text";
    write_file(path, text_);
    bytes_ = tokens_of_bytes(std::make_shared<const TextFiles>(std::vector{path}));
    memory_ = tokens_in_memory(Vocabulary::bytes().encode(text_));
  }

  TestFolder folder_;
  std::string text_;
  TokenSourcePtr bytes_, memory_;
};

TEST_F(FileTokens, AreThoseOfTheLoadedText) {
  EXPECT_EQ(token_source_all_of(*bytes_), token_source_all_of(*memory_));
  const Range middle{70'001, 70'100};
  EXPECT_EQ(token_source_all_of(*tokens_of_range(bytes_, middle)),
            token_source_all_of(*tokens_of_range(memory_, middle)));
  EXPECT_THROW(tokens_of_range(bytes_, {0, 200'001}), InternalError);
}

TEST(NumberTokens, OfSixteenAndThirtyTwoBitsAreReadAcrossFiles) {
  const TestFolder folder;
  write_file(folder / "a.bin", std::string("\x01\x00\x00\x02", 4));
  write_file(folder / "b.bin", std::string("\xff\xff\x03\x00", 4));
  const std::vector<fs::path> files{folder / "a.bin", folder / "b.bin"};
  EXPECT_EQ(token_source_all_of(*tokens_of_numbers(files, 16)),
            (std::vector<int32_t>{1, 512, 65535, 3}));
  EXPECT_EQ(token_source_all_of(*tokens_of_range(tokens_of_numbers(files, 16), {1, 3})),
            (std::vector<int32_t>{512, 65535}));
  EXPECT_EQ(token_source_all_of(*tokens_of_numbers({folder / "a.bin"}, 32)),
            (std::vector<int32_t>{0x02000001}));
}

TEST(NumberTokens, AFileThatEndsInsideOfATokenIsRefused) {
  const TestFolder folder;
  write_file(folder / "a.bin", "abc");
  EXPECT_THROW(tokens_of_numbers({folder / "a.bin"}, 16), UserError);
  EXPECT_THROW(tokens_of_numbers({folder / "none.bin"}, 16), UserError);
}

TEST_F(FileTokens, MakeTheSamplesAndTheFingerprintOfTheLoadedText) {
  const TextDataset in_file(bytes_, 16, 5), loaded(memory_, 16, 5);
  EXPECT_EQ(in_file.samples(), loaded.samples());
  EXPECT_EQ(in_file.fingerprint(), loaded.fingerprint());
  const Sampler sampler({.samples = in_file.samples(), .batch = 4});
  const Batch a = in_file.batch(sampler, 3, {0, 4}), b = loaded.batch(sampler, 3, {0, 4});
  for (const std::string name : {"tokens", "labels"})
    for (int64_t row = 0; row < 4; ++row)
      EXPECT_TRUE(std::ranges::equal(a.row<int32_t>(name, row), b.row<int32_t>(name, row)));
}

TEST_F(FileTokens, HaveTheBigramEntropyOfTheLoadedText) {
  // The sums of 200,000 logs in another order: each term is rounded a few times.
  const double expected = bigram_entropy(token_source_all_of(*memory_), 256);
  EXPECT_NEAR(bigram_entropy(*bytes_, 256), expected, 1e-11 * expected);
  EXPECT_EQ(bigram_entropy(*bytes_, 5000), expected);  // a larger vocabulary is counted as before
}

TEST(TokenSource, OfLessThanAPairHasNoBigramEntropy) {
  EXPECT_EQ(bigram_entropy(*tokens_in_memory({}), 4), 0.0);
  EXPECT_EQ(bigram_entropy(*tokens_in_memory({3}), 4), 0.0);
  EXPECT_THROW(bigram_entropy(*tokens_in_memory({0, 4}), 4), InternalError);
}

}  // namespace
}  // namespace tessera
