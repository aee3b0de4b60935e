// Patterns of names, to be compared with many names.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
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

/// A pattern of matches() in base/text/text.h, read once.
class NamePattern {
 public:
  ///   throws  UserError (78) as alternatives_of, and for more than 4,096 choices or 64 braces
  explicit NamePattern(std::string_view pattern);

  /// matches(pattern, name)
  ///   time  O(log choices) for most names that do not match, and for those without stars
  bool matches(std::string_view name) const;

  /// All names that it matches, in any order; nullopt when it has stars.
  std::optional<std::vector<std::string>> names() const;

 private:
  /// A choice with stars.
  struct Choice {
    std::string text;  // without braces
    size_t end = 0;    // the letters after the last star

    bool matches(std::string_view name) const;
  };
  /// By the letters before their first star.
  using ByBeginning = std::map<std::string, std::vector<Choice>, std::less<>>;

  std::set<std::string, std::less<>> names_;  // choices without stars
  std::map<size_t, ByBeginning> starred_;     // by the number of these letters
};

}  // namespace tessera
