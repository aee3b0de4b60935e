// Converts text to tokens and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A mapping between text and tokens.
///
///   bytes       a token is a byte; there are 256 of them
///   characters  a token is the index of a UTF-8 character among those that occur, sorted by code
///               point; an unknown character in encode() is an error
class Vocabulary {
 public:
  static Vocabulary bytes();
  ///   throws  UserError (65) when the text is empty or not UTF-8
  static Vocabulary characters_of(std::string_view text);

  /// A stored vocabulary, from its symbols().
  ///   throws  UserError (65) when they are not UTF-8 characters in ascending order
  static Vocabulary of_symbols(std::vector<std::string> symbols);

  int size() const;
  /// The characters, by token; empty for bytes.
  const std::vector<std::string>& symbols() const { return symbols_; }
  ///   throws  UserError (65) for the first character that is not UTF-8 or not in the vocabulary,
  ///           with its position
  std::vector<int32_t> encode(std::string_view text) const;
  /// The text of tokens. A token outside [0, size()) becomes "?".
  std::string decode(const std::vector<int32_t>& tokens) const;

 private:
  int32_t token_at(std::string_view text, size_t place, std::string_view character) const;

  std::vector<std::string> symbols_;  // empty: bytes
};

/// The length of the UTF-8 character at the start of `text`: 1 to 4, or 0 when it is malformed or
/// cut off.
///   requires  text is not empty
///   ensures   over-long forms, surrogates and code points above U+10FFFF are malformed
int utf8_length(std::string_view text);
/// The place of the first byte at which no UTF-8 character begins.
std::optional<size_t> first_not_utf8(std::string_view text);

}  // namespace tessera
