// Patterns of names, to be compared with many names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The names or numbers that one pair of braces may list: a limit for `{0..N}`.
inline constexpr int kMaxAlternatives = 1 << 20;

/// Throws UserError (78): `pattern` is no pattern of names.
[[noreturn]] void refuse_pattern(std::string_view pattern, const std::string& why);

/// The alternatives that stand between two braces of `pattern`, with ranges written out.
///   example  alternatives_of("0..2,7,last", pattern) = {"0", "1", "2", "7", "last"}
///   throws   UserError (78) for two points that are not between two numbers in ascending order,
///            and for a range of more than kMaxAlternatives
std::vector<std::string> alternatives_of(std::string_view list, std::string_view pattern);

/// A pattern of matches() in base/text.h, read once.
class NamePattern {
 public:
  ///   throws  UserError (78) as alternatives_of, and for more than 4,096 choices or 64 braces
  explicit NamePattern(std::string_view pattern);

  /// matches(pattern, name)
  ///   time  O(choices) for most names that do not match: their beginnings or ends differ
  bool matches(std::string_view name) const;

 private:
  struct Choice {
    std::string text;               // without braces
    size_t beginning = 0, end = 0;  // the letters before the first star, and behind the last one
    bool has_star = false;

    explicit Choice(std::string pattern);
    bool matches(std::string_view name) const;
  };
  std::vector<Choice> choices_;
};

}  // namespace tessera
