#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/files/document.h"

namespace tessera {
namespace {

/// The parser and the functions over its tables are recursive: the depth of the stack.
constexpr size_t kMaxDepth = 256;

[[noreturn]] void refuse_toml(const std::string& place, const std::string& why) {
  throw UserError(place + ": this is not TOML", why, "correct the file at that position",
                  ExitCode::kBadConfig);
}

bool begins_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_' || letter == '-' ||
         letter == '"' || letter == '\'';
}

/// Finds what toml++ does not survive: the name of a table that does not begin like a name,
/// characters beyond ASCII outside of texts and comments, quotes inside of words, which begin no
/// text for toml++, and names with so many dots, or values so deeply nested, that the stack
/// overflows.
class TomlCheck {
 public:
  TomlCheck(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void run() {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    while (at_ < text_.size()) {
      const char letter = text_[at_];
      if (is_line_start_ && letter == '[') check_table_name();
      is_line_start_ =
          letter == '\n' ? dots_.size() == 1 : is_line_start_ && (letter == ' ' || letter == '\t');
      if (letter == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (letter == '"' || letter == '\'')
        skip_text(letter);
      else
        take(letter);
    }
  }

 private:
  void check_table_name() {
    size_t at = at_ + 1;
    if (at < text_.size() && text_[at] == '[') ++at;
    at = std::min(text_.find_first_not_of(" \t", at), text_.size());
    if (at == text_.size() || begins_name(text_[at])) return;
    refuse("the name of a table begins with a letter, a digit, '_', '-' or a quote");
  }

  void take(char letter) {
    if (static_cast<unsigned char>(letter) > 0x7f)
      refuse("a character beyond ASCII is part of a text in quotes or of a comment");
    ++at_;
    if (letter == '[' || letter == '{') dots_.push_back(0);
    if ((letter == ']' || letter == '}') && dots_.size() > 1) dots_.pop_back();
    if (letter == ',' || letter == '\n') dots_.back() = 0;
    if (letter == '.') ++dots_.back();
    if (letter == '.' || letter == '[' || letter == '{') check_depth();
  }

  void check_depth() const {
    const size_t depth = std::accumulate(dots_.begin(), dots_.end(), dots_.size());
    if (depth > kMaxDepth)
      refuse("names with dots, lists and tables may be nested " + std::to_string(kMaxDepth) +
             " deep");
  }

  /// A text in quotes, or in three of them.
  void skip_text(char quote) {
    constexpr std::string_view kBeforeText = " \t\r\n=,.[{\"'\xbf";  // the last: a byte order mark
    if (at_ > 0 && kBeforeText.find(text_[at_ - 1]) == std::string_view::npos)
      refuse("a text in quotes does not begin inside of a word");
    const std::string_view three = quote == '"' ? R"(""")" : "'''";
    const std::string_view end = text_.substr(at_, 3) == three ? three : three.substr(0, 1);
    for (at_ += end.size(); at_ < text_.size() && text_.substr(at_, end.size()) != end; ++at_) {
      if (quote == '"' && text_[at_] == '\\') ++at_;
      if (end.size() == 1 && at_ < text_.size() && text_[at_] == '\n') return;  // it has no end
    }
    at_ = std::min(at_ + end.size(), text_.size());
  }

  [[noreturn]] void refuse(const std::string& why) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    refuse_toml(file_ + ":" + std::to_string(line) + ":" + std::to_string(column), why);
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  bool is_line_start_ = true;
  std::vector<size_t> dots_{0};  // of the present name, in each open bracket
};

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
  TomlCheck(text, file).run();
  try {
    return from_table(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    const auto place = error.source().begin;
    refuse_toml(file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column),
                std::string(error.description()));
  }
}

}  // namespace tessera
