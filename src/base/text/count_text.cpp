#include "base/text/count_text.h"

namespace tessera {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t end = text.size(); end > first + 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

std::string counted(int64_t number, const std::string& noun) {
  const bool ends_in_sibilant = noun.ends_with("s") || noun.ends_with("ch") || noun.ends_with("sh");
  return grouped(number) + " " + noun + (number == 1 ? "" : ends_in_sibilant ? "es" : "s");
}

}  // namespace tessera
