// The constants of an op, by name: integers, numbers, texts, lists of integers, booleans.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera {

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

/// The attributes of an op, ordered by name, so that equal ops are printed alike.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> list) : values_(list) {}

  void set(const std::string& name, Attribute value) { values_[name] = std::move(value); }
  bool has(std::string_view name) const { return values_.find(std::string(name)) != values_.end(); }
  bool empty() const { return values_.empty(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

  /// These throw InternalError when the attribute is absent or of another kind.
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;

  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Attribute> values_;
};

/// `3`, `3.0`, `"text"`, `[1, 2]`, `true`.
std::string to_text(const Attribute& attribute);
/// `{dim=1, spec="ab,bc->ac"}`; "" when there are none.
std::string to_text(const Attributes& attributes);

}  // namespace tessera
