// Patterns of names, to be compared with many names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A pattern of matches() in base/text.h, read once.
class NamePattern {
 public:
  explicit NamePattern(std::string_view pattern);

  /// matches(pattern, name)
  ///   time  O(choices) for most names that do not match: their beginnings or ends differ
  bool matches(std::string_view name) const;

 private:
  std::vector<std::string> choices_;  // without braces
};

}  // namespace tessera
