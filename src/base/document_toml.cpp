#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/document.h"
#include "base/error.h"

namespace tessera {
namespace {

Document from_toml(const toml::node& node);

Document from_table(const toml::table& table) {
  // toml++ sorts keys; the order in the file is the order of the source positions.
  std::vector<std::pair<toml::source_position, std::string>> keys;
  for (const auto& [key, value] : table)
    keys.emplace_back(key.source().begin, std::string(key.str()));
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Document::Table result;
  for (const auto& [place, key] : keys) result.emplace_back(key, from_toml(*table.get(key)));
  return result;
}

Document from_toml(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_array()) {
    Document::List list;
    for (const toml::node& item : *value) list.push_back(from_toml(item));
    return list;
  }
  if (const auto* value = node.as_table()) return from_table(*value);
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

}  // namespace

Document parse_toml(std::string_view text, const std::string& file) {
  try {
    return from_table(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    const auto place = error.source().begin;
    throw UserError(file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) +
                        ": this is not TOML",
                    std::string(error.description()), "correct the file at that position",
                    ExitCode::kBadConfig);
  }
}

}  // namespace tessera
