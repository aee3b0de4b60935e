#include "base/files/document.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace tessera {
namespace {

template <typename T, typename Value>
const T& get(const Value& value, const char* kind) {
  const T* found = std::get_if<T>(&value);
  ensure(found != nullptr, std::string("a document that is ") + kind);
  return *found;
}

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

bool Document::as_bool() const {
  return get<bool>(value_, "a boolean");
}
int64_t Document::as_int() const {
  return get<int64_t>(value_, "an integer");
}
double Document::as_double() const {
  return is_int() ? static_cast<double>(as_int()) : get<double>(value_, "a number");
}
const std::string& Document::as_string() const {
  return get<std::string>(value_, "a string");
}
const Document::List& Document::as_list() const {
  return get<List>(value_, "a list");
}
const Document::Table& Document::as_table() const {
  return get<Table>(value_, "a table");
}

const Document* Document::find(std::string_view key) const {
  if (!is_table()) return nullptr;
  for (const auto& [name, value] : as_table())
    if (name == key) return &value;
  return nullptr;
}

Document* Document::find(std::string_view key) {
  return const_cast<Document*>(std::as_const(*this).find(key));
}

Document& Document::operator[](std::string_view key) {
  if (is_null()) value_ = Table{};
  ensure(is_table(), "a document that is a table");
  if (Document* found = find(key)) return *found;
  auto& table = std::get<Table>(value_);
  table.emplace_back(std::string(key), Document());
  return table.back().second;
}

void Document::append(Document value) {
  if (is_null()) value_ = List{};
  ensure(is_list(), "a document that is a list");
  std::get<List>(value_).push_back(std::move(value));
}

std::string kind_of(const Document& document) {
  if (document.is_null()) return "nothing";
  if (document.is_bool()) return "a boolean";
  if (document.is_int()) return "an integer";
  if (document.is_double()) return "a number";
  if (document.is_string()) return "a string";
  if (document.is_list()) return "a list";
  return "a table";
}

std::string to_toml(const Document& document) {
  ensure(document.is_table(), "TOML is a table");
  std::string text;
  add_table(document, "", 3, text);
  return text;
}

}  // namespace tessera
