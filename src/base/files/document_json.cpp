#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/files/document.h"
#include "base/text/printable.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

/// Deeper nesting is in no file of ours, and would overflow the stack of recursive functions over a
/// document.
constexpr int kDeepest = 256;

Document from_json(const Json& json, const std::string& file, int depth) {
  if (depth > kDeepest)
    throw UserError(file + ": this is nested too deeply",
                    "lists and tables may be nested " + std::to_string(kDeepest) + " deep",
                    "make the file flatter", ExitCode::kBadConfig);
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    throw UserError(file + ": " + json.dump() + " is too large",
                    "integers go up to 9223372036854775807",
                    "write a smaller one, or a number with a point", ExitCode::kBadConfig);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Document::List list;
    for (const Json& item : json) list.push_back(from_json(item, file, depth + 1));
    return list;
  }
  if (json.is_object()) {
    Document::Table table;
    for (const auto& [key, value] : json.items())
      table.emplace_back(key, from_json(value, file, depth + 1));
    return table;
  }
  return {};
}

/// The parser's message without its own prefix and position: "[json.exception...] parse error at
/// line 1, column 9: REASON".
std::string reason(const Json::exception& error) {
  const std::string_view text = error.what();
  const size_t place = text.find("parse error at ");
  if (place != std::string_view::npos) return std::string(text.substr(text.find(": ", place) + 2));
  return std::string(text.substr(text.find("] ") + 2));
}

/// Notes the keys of the tables that are open. The last of two equal keys would count.
class KeyCheck {
 public:
  explicit KeyCheck(const std::string& file) : file_(file) {}

  bool operator()(int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second)
      throw UserError("'" + file_ + "' gives the key '" + parsed.get<std::string>() + "' twice",
                      "it is unknown which of the two counts", "remove one of them",
                      ExitCode::kBadConfig);
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string>> keys_;
};

Json as_json(const Document& document) {
  if (document.is_bool()) return document.as_bool();
  if (document.is_int()) return document.as_int();
  if (document.is_double()) {
    const double value = document.as_double();
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
  }
  if (document.is_string()) return document.as_string();
  if (document.is_list()) {
    Json list = Json::array();
    for (const Document& item : document.as_list()) list.push_back(as_json(item));
    return list;
  }
  if (document.is_table()) {
    Json table = Json::object();
    for (const auto& [key, value] : document.as_table()) table[key] = as_json(value);
    return table;
  }
  return nullptr;
}

Document parse(std::string_view text, const std::string& file, bool ignore_comments) {
  try {
    KeyCheck check(file);
    return from_json(Json::parse(text, std::ref(check), true, ignore_comments), file, 0);
  } catch (const Json::parse_error& error) {
    // `byte` counts from 1, and is 0 or beyond the end when the text ends too early.
    const std::string_view before =
        text.substr(0, error.byte == 0 ? 0 : std::min(error.byte - 1, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    // npos + 1 is 0: the first line.
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    throw UserError(
        file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": this is not JSON",
        reason(error), "correct the file at that position", ExitCode::kBadConfig);
  } catch (const Json::exception& error) {  // a number beyond the doubles
    throw UserError(file + ": this is not JSON that can be read", reason(error), "correct the file",
                    ExitCode::kBadConfig);
  }
}

}  // namespace

Document parse_json(std::string_view text, const std::string& file) {
  return parse(text, file, false);
}

Document parse_commented_json(std::string_view text, const std::string& file) {
  return parse(text, file, true);
}

std::string to_json(const Document& document, int indent) {
  return printable_json(as_json(document).dump(indent, ' ', false, Json::error_handler_t::replace));
}

}  // namespace tessera
