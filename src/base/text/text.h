// Functions for text: joining, splitting, name patterns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split_text(std::string_view text, char separator);
std::string_view trim(std::string_view text);

/// The text itself, or the begin of a long one, for messages: "abc... (5,000,000 bytes)".
std::string excerpt(std::string_view text, size_t max = 100);

/// The number of a byte of a file's bytes, which char may give a sign.
inline uint8_t byte_at(std::string_view bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at]);
}

/// The parts between the separators outside of ( ), trimmed; without empty parts.
///   example  split_outside_brackets("(4,1), (1,1)", ',') = {"(4,1)", "(1,1)"}
std::vector<std::string> split_outside_brackets(std::string_view text, char separator);

/// Does `name` match `pattern`? `*` matches any sequence of letters and dots; `{a,b}` matches a or
/// b, and `{0..5}` one of the numbers.
///   example  matches("blocks.{0..5}.attn.{q,k}.weight", "blocks.0.attn.q.weight")
///   throws   UserError (78) for an invalid range
bool matches(std::string_view pattern, std::string_view name);

/// The shortest decimal form that parses to the same double. It always has a point or an exponent:
/// 3.0, 1e-05, 0.1.
std::string double_text(double value);

}  // namespace tessera
