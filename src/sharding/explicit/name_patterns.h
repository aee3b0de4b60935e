// Lists of names, written short: names that differ in one word or number share a pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Patterns that stand for exactly these names. A word (what points and digits separate) or a
/// number in which names differ becomes a list of alternatives, and numbers in succession a range:
///
///     blocks.{0..23}.attn.{q,k,v}.dot
///
///   requires  no name twice
///   ensures   each name is that of one pattern; the same names in the same order give the same
///             patterns
///   throws    UserError (78) for a name with a brace, which no pattern can say
///   time      O(n log n) for n names of bounded length
std::vector<std::string> to_patterns(const std::vector<std::string>& names);

/// The names of a pattern, in the order in which it lists them.
///   throws  UserError (78) for braces that do not match and for an invalid range
std::vector<std::string> names_of_pattern(std::string_view pattern);

}  // namespace tessera
