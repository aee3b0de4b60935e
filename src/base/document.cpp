#include "base/document.h"

#include "base/error.h"

namespace tessera {
namespace {

template <typename T, typename Value>
const T& get(const Value& value, const char* kind) {
  const T* found = std::get_if<T>(&value);
  ensure(found != nullptr, std::string("a document that is ") + kind);
  return *found;
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

}  // namespace tessera
