#include "training/data/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

/// The character at byte `place`.  throws  UserError
std::string_view character_at(std::string_view text, size_t place) {
  const int length = utf8_length(text.substr(place));
  if (length > 0) return text.substr(place, length);
  throw UserError(
      fmt::format("the text is not UTF-8: byte 0x{:02x} at offset {}", byte_at(text, place), place),
      "a vocabulary of characters reads its text as UTF-8",
      "convert the text to UTF-8, or use the vocabulary of bytes", ExitCode::kBadData);
}

uint32_t code_point(std::string_view character) {
  constexpr std::array<uint32_t, 5> kLeadBits = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t code = byte_at(character, 0) & kLeadBits[character.size()];
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte_at(character, i) & 0x3f);
  return code;
}

}  // namespace

int utf8_length(std::string_view text) {
  const uint8_t lead = byte_at(text, 0);
  const int length = lead < 0x80   ? 1
                     : lead < 0xc2 ? 0
                     : lead < 0xe0 ? 2
                     : lead < 0xf0 ? 3
                     : lead < 0xf5 ? 4
                                   : 0;
  if (std::ssize(text) < length) return 0;
  for (int i = 1; i < length; ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  if (length <= 2) return length;
  const uint8_t second = byte_at(text, 1);
  const bool over_long = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool too_large = lead == 0xf4 && second >= 0x90;
  return over_long || surrogate || too_large ? 0 : length;
}

std::optional<size_t> first_not_utf8(std::string_view text) {
  for (size_t place = 0; place < text.size();) {
    const int length = utf8_length(text.substr(place));
    if (length == 0) return place;
    place += length;
  }
  return std::nullopt;
}

Vocabulary Vocabulary::bytes() {
  return {};
}

Vocabulary Vocabulary::characters_of(std::string_view text) {
  std::set<std::string_view> found;
  for (size_t place = 0; place < text.size();) {
    const std::string_view character = character_at(text, place);
    found.insert(character);
    place += character.size();
  }
  if (found.empty())
    throw UserError("there are no characters to make a vocabulary of", "the text is empty",
                    "give it text, or use the vocabulary of bytes", ExitCode::kBadData);
  Vocabulary vocabulary;
  vocabulary.symbols_.assign(
      found.begin(),
      found.end());  // the order of the bytes of UTF-8 is the order of the code points
  return vocabulary;
}

Vocabulary Vocabulary::of_symbols(std::vector<std::string> symbols) {
  for (size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i].empty() || utf8_length(symbols[i]) != std::ssize(symbols[i]) ||
        (i > 0 && symbols[i - 1] >= symbols[i]))
      throw UserError(fmt::format("symbol {} of the vocabulary is not possible", i),
                      "they are UTF-8 characters in ascending order",
                      "use the vocabulary as it was stored", ExitCode::kBadData);
  Vocabulary vocabulary;
  vocabulary.symbols_ = std::move(symbols);
  return vocabulary;
}

int Vocabulary::size() const {
  return symbols_.empty() ? 256 : static_cast<int>(symbols_.size());
}

std::vector<int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  if (symbols_.empty()) {
    for (char letter : text) tokens.push_back(static_cast<uint8_t>(letter));
    return tokens;
  }
  for (size_t place = 0; place < text.size();) {
    const std::string_view character = character_at(text, place);
    tokens.push_back(token_at(text, place, character));
    place += character.size();
  }
  return tokens;
}

int32_t Vocabulary::token_at(std::string_view text, size_t place,
                             std::string_view character) const {
  const auto found = std::lower_bound(symbols_.begin(), symbols_.end(), character);
  if (found != symbols_.end() && *found == character)
    return static_cast<int32_t>(found - symbols_.begin());
  throw UserError(
      fmt::format("the character U+{:04X} at offset {} of {} bytes is not in the vocabulary",
                  code_point(character), place, text.size()),
      fmt::format("the vocabulary holds the {} characters of the text that it was made of", size()),
      "leave the character out, make the vocabulary of all the text, or use the vocabulary of "
      "bytes",
      ExitCode::kBadData);
}

std::string Vocabulary::decode(const std::vector<int32_t>& tokens) const {
  std::string text;
  for (int32_t token : tokens) {
    if (token < 0 || token >= size())
      text += '?';
    else if (symbols_.empty())
      text += static_cast<char>(token);
    else
      text += symbols_[token];
  }
  return text;
}

}  // namespace tessera
