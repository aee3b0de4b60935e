#include "ir/graph/internal/attributes.h"

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

template <typename T>
const T& get(const std::map<std::string, Attribute>& values, std::string_view name) {
  const auto found = values.find(std::string(name));
  ensure(found != values.end(), [&] { return "attribute '" + std::string(name) + "' is missing"; });
  const T* value = std::get_if<T>(&found->second);
  ensure(value != nullptr,
         [&] { return "attribute '" + std::string(name) + "' is of another kind"; });
  return *value;
}

}  // namespace

int64_t Attributes::integer(std::string_view name) const {
  return get<int64_t>(values_, name);
}
double Attributes::number(std::string_view name) const {
  return get<double>(values_, name);
}
bool Attributes::boolean(std::string_view name) const {
  return get<bool>(values_, name);
}
const std::string& Attributes::text(std::string_view name) const {
  return get<std::string>(values_, name);
}
const std::vector<int64_t>& Attributes::integers(std::string_view name) const {
  return get<std::vector<int64_t>>(values_, name);
}

std::string to_text(const Attribute& attribute) {
  if (const auto* value = std::get_if<bool>(&attribute)) return *value ? "true" : "false";
  if (const auto* value = std::get_if<int64_t>(&attribute)) return std::to_string(*value);
  if (const auto* value = std::get_if<double>(&attribute)) return double_text(*value);
  if (const auto* value = std::get_if<std::string>(&attribute)) return '"' + *value + '"';
  std::vector<std::string> parts;
  for (int64_t value : std::get<std::vector<int64_t>>(attribute))
    parts.push_back(std::to_string(value));
  return "[" + join(parts, ", ") + "]";
}

std::string to_text(const Attributes& attributes) {
  if (attributes.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : attributes) parts.push_back(name + "=" + to_text(value));
  return "{" + join(parts, ", ") + "}";
}

}  // namespace tessera
