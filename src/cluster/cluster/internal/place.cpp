#include "cluster/cluster/internal/place.h"

#include <charconv>

namespace tessera {
namespace {

bool has_rest(const Document& document, std::string_view rest);

/// The place begins with the key of a table.
bool has_key(const Document& table, std::string_view place) {
  if (!table.is_table()) return false;
  for (const auto& [key, value] : table.as_table())
    if (!key.empty() && is_at_or_below(place, key) && has_rest(value, place.substr(key.size())))
      return true;
  return false;
}

/// The place of a value inside of `document`: "", ".links[0]" or "[0].links".
bool has_rest(const Document& document, std::string_view rest) {
  if (rest.empty()) return true;
  if (rest.front() == '.') return has_key(document, rest.substr(1));
  const size_t end = rest.find(']');
  if (!document.is_list() || end == std::string_view::npos) return false;
  size_t index = 0;
  const auto [last, error] = std::from_chars(rest.data() + 1, rest.data() + end, index);
  return error == std::errc{} && last == rest.data() + end && index < document.as_list().size() &&
         has_rest(document.as_list()[index], rest.substr(end + 1));
}

}  // namespace

bool has_place(const Document& document, std::string_view place) {
  return has_key(document, place);
}

bool is_at_or_below(std::string_view place, std::string_view around) {
  if (!place.starts_with(around)) return false;
  const std::string_view rest = place.substr(around.size());
  return rest.empty() || rest.front() == '.' || rest.front() == '[';
}

}  // namespace tessera
