#include <algorithm>
#include <cctype>

#include "base/document.h"
#include "base/error.h"

namespace tessera {
namespace {

std::string key_text(const std::string& key) {
  const auto is_bare = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  return !key.empty() && std::all_of(key.begin(), key.end(), is_bare) ? key : to_json(key);
}

/// A value in one line.
std::string inline_text(const Document& value) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (value.is_table()) {
    for (const auto& [key, item] : value.as_table())
      if (!item.is_null()) add(key_text(key) + " = " + inline_text(item));
    return "{" + text + "}";
  }
  if (!value.is_list()) return to_json(value);
  for (const Document& item : value.as_list()) add(inline_text(item));
  return "[" + text + "]";
}

bool is_list_of_tables(const Document& value) {
  return value.is_list() && !value.as_list().empty() &&
         std::all_of(value.as_list().begin(), value.as_list().end(),
                     [](const Document& item) { return item.is_table(); });
}

/// The lines of a table that has the header `path`, "" for the whole document.
///   depth  of headers inside of it
void add_table(const Document& table, const std::string& path, int depth, std::string& text) {
  const auto has_header = [&](const Document& value) {
    return depth > 0 && (value.is_table() || (path.empty() && is_list_of_tables(value)));
  };
  for (const auto& [key, value] : table.as_table())
    if (!value.is_null() && !has_header(value))
      text += key_text(key) + " = " + inline_text(value) + "\n";
  for (const auto& [key, value] : table.as_table()) {
    if (value.is_null() || !has_header(value)) continue;
    const std::string inner = (path.empty() ? "" : path + ".") + key_text(key);
    if (value.is_table()) {
      text += "\n[" + inner + "]\n";
      add_table(value, inner, depth - 1, text);
      continue;
    }
    for (const Document& item : value.as_list()) {
      text += "\n[[" + inner + "]]\n";
      add_table(item, inner, 0, text);
    }
  }
}

}  // namespace

std::string to_toml(const Document& document) {
  ensure(document.is_table(), "TOML is a table");
  std::string text;
  add_table(document, "", 3, text);
  return text;
}

}  // namespace tessera
