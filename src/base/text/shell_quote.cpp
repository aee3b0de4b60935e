#include "base/text/shell_quote.h"

#include "base/text/text.h"

namespace tessera {

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  // A quote within single quotes ends them, is quoted itself, and begins them again.
  return "'" + join(split_text(word, '\''), "'\\''") + "'";
}

}  // namespace tessera
