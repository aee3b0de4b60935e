// Tokens without labels, as a model reads them to predict.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "training/data/batch.h"
#include "training/data/vocabulary.h"

namespace tessera {

/// Consecutive tokens as samples of `context` tokens. Tokens that fill no sample are left out.
///   fields  tokens i32[context]
class TokenRows : public Dataset {
 public:
  /// `origin` is for the message.
  ///   throws  UserError (65) when there are fewer than `context` tokens
  TokenRows(std::vector<int32_t> tokens, int64_t context, const std::string& origin);
  int64_t samples() const override { return std::ssize(tokens_) / context_; }
  int64_t left_out() const { return std::ssize(tokens_) % context_; }
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  std::vector<int32_t> tokens_;
  int64_t context_;
};

/// What a model of tokens reads.
struct TokenModel {
  int64_t context = 0;
  int64_t vocabulary = 0;            // tokens are below it
  const Vocabulary* text = nullptr;  // nullptr: it was not trained on text
};
/// Reads a file by the ending of its name: .npy (.npz) is an array of tokens, [rows, context] or
/// one dim that is cut into rows; .jsonl has a row of `context` tokens on each line; any other file
/// is text, which is cut into rows.
///   throws  UserError: 66 when the file cannot be read; 65 when it is malformed, a row has another
///           length, a token is not below the vocabulary, or the model was not trained on text
std::shared_ptr<const TokenRows> read_rows(const std::filesystem::path& file,
                                           const TokenModel& model);

}  // namespace tessera
