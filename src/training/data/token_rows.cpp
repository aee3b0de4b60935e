#include "training/data/token_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "training/data/array_files.h"
#include "training/data/stored_name.h"
#include "training/data/text_files.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_length(const std::string& what, int64_t context) {
  throw UserError(what,
                  fmt::format("the model reads rows of {} tokens, its model.context", context),
                  fmt::format("give rows of {} tokens", context), ExitCode::kBadData);
}

std::vector<int32_t> tokens_of_array(const StoredArray& array, const TokenModel& model) {
  const std::vector<int64_t>& shape = array.shape();
  if (shape.size() == 2 && shape[1] != model.context)
    refuse_length(fmt::format("'{}' has rows of {} tokens", array.file(), shape[1]), model.context);
  if (shape.size() != 1 && shape.size() != 2)
    throw UserError(fmt::format("'{}' has {} dims", array.file(), shape.size()),
                    fmt::format("tokens are [rows, {}], or one dim", model.context),
                    "reshape the array", ExitCode::kBadData);
  return tokens_of(array, model.vocabulary);
}

std::vector<int32_t> tokens_of_lines(const std::filesystem::path& file, const TokenModel& model) {
  std::vector<int32_t> tokens;
  int64_t number = 0;
  for (const std::vector<int32_t>& row : read_token_rows(file, model.vocabulary)) {
    ++number;
    if (std::ssize(row) != model.context)
      refuse_length(fmt::format("'{}' has {} tokens in row {}", file.string(), row.size(), number),
                    model.context);
    tokens.insert(tokens.end(), row.begin(), row.end());
  }
  return tokens;
}

std::vector<int32_t> tokens_of_text(const std::filesystem::path& file, const TokenModel& model) {
  if (!model.text)
    throw UserError("'" + file.string() + "' is text for a model that reads none",
                    "the model was trained on tokens, without a vocabulary of text",
                    "give its tokens as .npy or .jsonl", ExitCode::kBadData);
  return model.text->encode(read_text({file}));
}

}  // namespace

TokenRows::TokenRows(std::vector<int32_t> tokens, int64_t context, const std::string& origin)
    : Dataset({token_fields(context).front()}), tokens_(std::move(tokens)), context_(context) {
  if (samples() > 0) return;
  refuse_length(fmt::format("'{}' has {} tokens, which fill no row", origin, tokens_.size()),
                context_);
}

uint64_t TokenRows::fingerprint() const {
  return stable_hash(
      {reinterpret_cast<const char*>(tokens_.data()), tokens_.size() * sizeof(int32_t)},
      static_cast<uint64_t>(context_));
}

void TokenRows::write(int64_t sample, int64_t row, Batch& batch) const {
  std::ranges::copy_n(tokens_.begin() + sample * context_, context_,
                      batch.row<int32_t>("tokens", row).begin());
}

std::shared_ptr<const TokenRows> read_rows(const std::filesystem::path& file,
                                           const TokenModel& model) {
  std::vector<int32_t> tokens;
  if (is_npy(file))
    tokens = tokens_of_array(read_npy(file), model);
  else if (stored_ending(file) == ".jsonl")
    tokens = tokens_of_lines(file, model);
  else
    tokens = tokens_of_text(file, model);
  return std::make_shared<const TokenRows>(std::move(tokens), model.context, file.string());
}

}  // namespace tessera
