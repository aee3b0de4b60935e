#include "training/data/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"

namespace tessera {
namespace {

/// The successors of each token: those of token a are next[first[a]] to next[first[a + 1] - 1].
struct Successors {
  std::vector<int64_t> first;
  std::vector<int32_t> next;
};

Successors successors_of(const std::vector<int32_t>& tokens, int vocabulary_size) {
  Successors result{std::vector<int64_t>(vocabulary_size + 1, 0),
                    std::vector<int32_t>(tokens.size() - 1)};
  for (size_t i = 0; i + 1 < tokens.size(); ++i) ++result.first[tokens[i] + 1];
  for (size_t a = 1; a < result.first.size(); ++a) result.first[a] += result.first[a - 1];
  std::vector<int64_t> place = result.first;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) result.next[place[tokens[i]]++] = tokens[i + 1];
  return result;
}

/// Like stable_hash, but for one token at a time.
uint64_t hash_of(const TokenSource& tokens, uint64_t hash) {
  for_each_block(tokens, [&](std::span<const int32_t> block) {
    for (int32_t token : block) hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3ULL;
  });
  return hash;
}

constexpr int kDenseVocabulary = 1024;  // whose table of pairs takes 8 MiB

}  // namespace

double bigram_entropy(const std::vector<int32_t>& tokens, int vocabulary_size) {
  for (int32_t token : tokens)
    ensure(token >= 0 && token < vocabulary_size, "a token of the vocabulary");
  if (tokens.size() < 2) return 0.0;
  const Successors successors = successors_of(tokens, vocabulary_size);
  std::vector<int64_t> counts(vocabulary_size, 0);
  double sum = 0.0;
  for (size_t a = 0; a < counts.size(); ++a) {
    const auto total = static_cast<double>(successors.first[a + 1] - successors.first[a]);
    const auto begin = successors.next.begin() + successors.first[a],
               end = successors.next.begin() + successors.first[a + 1];
    for (auto next = begin; next != end; ++next) ++counts[*next];
    for (auto next = begin; next != end; ++next) {
      // The count is removed when it is first used, so that every pair is summed once and the
      // counts are zero again for the next token.
      const auto count = static_cast<double>(std::exchange(counts[*next], 0));
      if (count > 0) sum -= count * std::log(count / total);
    }
  }
  return sum / static_cast<double>(tokens.size() - 1);
}

double bigram_entropy(const TokenSource& tokens, int vocabulary_size) {
  std::vector<int32_t> all;
  if (vocabulary_size > kDenseVocabulary) {
    all.resize(tokens.size());
    tokens.copy(0, all);
    return bigram_entropy(all, vocabulary_size);
  }
  const size_t size = vocabulary_size;
  std::vector<int64_t> pairs(size * size, 0);
  int64_t before = -1;
  for_each_block(tokens, [&](std::span<const int32_t> block) {
    for (int32_t token : block) {
      ensure(token >= 0 && token < vocabulary_size, "a token of the vocabulary");
      if (before >= 0) ++pairs[before * size + token];
      before = token;
    }
  });
  double sum = 0.0;
  for (size_t a = 0; a < size; ++a) {
    const std::span<const int64_t> row = std::span(pairs).subspan(a * size, size);
    const auto total = static_cast<double>(std::accumulate(row.begin(), row.end(), int64_t{0}));
    for (int64_t count : row)
      if (count > 0)
        sum -= static_cast<double>(count) * std::log(static_cast<double>(count) / total);
  }
  return tokens.size() < 2 ? 0.0 : sum / static_cast<double>(tokens.size() - 1);
}

int64_t held_out_count(int64_t count, double fraction, int64_t minimum) {
  ensure(minimum >= 0, "a part has no negative number of tokens");
  if (!(fraction >= 0.0 && fraction < 1.0))
    throw UserError("a fraction of " + double_text(fraction) + " of the text cannot be held out",
                    "the fraction is at least 0 and below 1",
                    "hold out a tenth, 0.1, or leave the default", ExitCode::kBadConfig);
  if (count < 2 * minimum)
    throw UserError(
        fmt::format("the text is too short to hold out a part: it has {} tokens", count),
        fmt::format("the part to train on and the part held out each need {} tokens, {} together",
                    minimum, 2 * minimum),
        "give it more text, or make the context shorter", ExitCode::kBadData);
  const int64_t wanted = std::llround(fraction * static_cast<double>(count));
  return std::clamp(wanted, minimum, count - minimum);
}

TextSplit hold_out(std::vector<int32_t> tokens, double fraction, int64_t minimum) {
  const int64_t count = std::ssize(tokens);
  const int64_t held = held_out_count(count, fraction, minimum);
  TextSplit split;
  split.held_out.assign(tokens.end() - held, tokens.end());
  tokens.resize(count - held);
  split.train = std::move(tokens);
  return split;
}

TextDataset::TextDataset(std::vector<int32_t> tokens, int64_t context, int64_t stride)
    : TextDataset(tokens_in_memory(std::move(tokens)), context, stride) {}

TextDataset::TextDataset(TokenSourcePtr tokens, int64_t context, int64_t stride,
                         TokenSourcePtr targets)
    : Dataset(token_fields(context)),
      tokens_(std::move(tokens)),
      targets_(targets ? std::move(targets) : tokens_),
      context_(context),
      stride_(stride) {
  if (context < 1 || stride < 1)
    throw UserError(
        fmt::format("samples with a context of {} tokens and a stride of {} cannot be made",
                    context, stride),
        "a sample has at least one token, and the next begins at least one later",
        "set both to 1 or more", ExitCode::kBadConfig);
  const int64_t count = tokens_->size();
  ensure(targets_->size() == count, "each token has a target");
  if (count < context + 1)
    throw UserError(fmt::format("the text is too short for one sample: it has {} tokens", count),
                    fmt::format("a sample with a context of {} takes {} tokens: its labels are its "
                                "inputs shifted by one",
                                context, context + 1),
                    "give it more text, or make the context shorter", ExitCode::kBadData);
}

int64_t TextDataset::samples() const {
  return (tokens_->size() - 1 - context_) / stride_ + 1;
}

uint64_t TextDataset::fingerprint() const {
  std::call_once(hashed_, [&] {
    fingerprint_ = hash_of(*tokens_, stable_hash(fmt::format("{} {}", context_, stride_)));
    if (targets_ != tokens_) fingerprint_ = hash_of(*targets_, fingerprint_);
  });
  return fingerprint_;
}

void TextDataset::write(int64_t sample, int64_t row, Batch& batch) const {
  const int64_t begin = sample * stride_;
  tokens_->copy(begin, batch.row<int32_t>("tokens", row));
  targets_->copy(begin + 1, batch.row<int32_t>(kLabels, row));
}

}  // namespace tessera
