// Trees of values, which TOML and JSON files contain. Each parser has a source of its own, since
// their headers are slow to compile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {

/// A value, list or table. Tables keep the order in which keys were set.
class Document {
 public:
  using List = std::vector<Document>;
  using Table = std::vector<std::pair<std::string, Document>>;

  Document() = default;                                        // null
  Document(bool value) : value_(value) {}                      // NOLINT: a value is a document
  Document(int value) : value_(int64_t{value}) {}              // NOLINT
  Document(int64_t value) : value_(value) {}                   // NOLINT
  Document(double value) : value_(value) {}                    // NOLINT
  Document(const char* value) : value_(std::string(value)) {}  // NOLINT
  Document(std::string value) : value_(std::move(value)) {}    // NOLINT
  Document(List value) : value_(std::move(value)) {}           // NOLINT
  Document(Table value) : value_(std::move(value)) {}          // NOLINT

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  bool is_table() const { return std::holds_alternative<Table>(value_); }

  /// These throw InternalError when the value is of another kind, so check the kind first.
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;  // an integer counts
  const std::string& as_string() const;
  const List& as_list() const;
  const Table& as_table() const;

  /// The value of `key` in a table; nullptr when it is absent.
  const Document* find(std::string_view key) const;
  Document* find(std::string_view key);
  /// The value of `key`, which is added as null when it is absent. A null document becomes a table.
  Document& operator[](std::string_view key);
  /// Appends to a list. A null document becomes a list.
  void append(Document value);
  bool operator==(const Document&) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Table> value_;
};

/// The kind as text for messages: "a table", "an integer", "a string", ...
std::string kind_of(const Document& document);

/// `file` is for messages only.
///   throws  UserError with the position (file:line:column) when the text is malformed
Document parse_toml(std::string_view text, const std::string& file);
Document parse_json(std::string_view text, const std::string& file);
/// The same for files that people write: it ignores comments, `// ...` and `/* ... */`.
Document parse_commented_json(std::string_view text, const std::string& file);

/// `indent` is in spaces; -1 prints one line. Doubles are printed in the shortest form that parses
/// to the same number; NaN and infinities are strings.
std::string to_json(const Document& document, int indent = -1);

/// The TOML of a table; parse_toml gives it again, except for null values, which are left out.
/// Tables and lists of tables get headers, those inside of other lists stay in one line.
///   requires  a table
std::string to_toml(const Document& document);

}  // namespace tessera
