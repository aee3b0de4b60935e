#include "base/text/text.h"

#include <array>
#include <charconv>
#include <ostream>
#include <utility>

#include "base/text/count_text.h"
#include "base/text/name_pattern.h"
#include "base/text/name_template.h"

namespace tessera {

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) text += separator;
    text += parts[i];
  }
  return text;
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, begin)) {
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::vector<std::string> split_outside_brackets(std::string_view text, char separator) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] == '(' || text[i] == '[')) ++depth;
    if (i < text.size() && (text[i] == ')' || text[i] == ']')) --depth;
    if (i < text.size() && (text[i] != separator || depth != 0)) continue;
    if (!trim(text.substr(begin, i - begin)).empty())
      parts.emplace_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return parts;
}

bool matches(std::string_view pattern, std::string_view name) {
  return NamePattern(pattern).matches(name);
}

std::string double_text(double value) {
  std::array<char, 40> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// ---- NameTemplate ----

NameTemplate::NameTemplate(std::string pattern) {
  if (!pattern.empty()) pattern_ = std::make_shared<const std::string>(std::move(pattern));
}

const std::string& NameTemplate::pattern() const {
  static const std::string empty;
  return pattern_ ? *pattern_ : empty;
}

std::string NameTemplate::text() const {
  return number_ < 0 ? pattern() : with(std::to_string(number_));
}

std::string NameTemplate::with(std::string_view number) const {
  std::string result;
  std::string_view rest = pattern();
  while (true) {
    const size_t mark = rest.find(kMark);
    result += rest.substr(0, mark);
    if (mark == std::string_view::npos) return result;
    result += number;
    rest.remove_prefix(mark + 1);
  }
}

NameTemplate NameTemplate::numbered(int number) const {
  NameTemplate text = *this;
  text.number_ = number;
  return text;
}

NameTemplate& NameTemplate::operator+=(std::string_view suffix) {
  pattern_ = std::make_shared<const std::string>(pattern() + std::string(suffix));
  return *this;
}

std::string operator+(const NameTemplate& a, std::string_view b) {
  return a.text().append(b);
}

std::ostream& operator<<(std::ostream& out, const NameTemplate& text) {
  return out << text.text();
}

std::ostream& operator<<(std::ostream& out, const NameTemplateView& text) {
  return out << text.text();
}

std::string excerpt(std::string_view text, size_t max) {
  if (text.size() <= max) return std::string(text);
  size_t end = max;
  while (end > 0 && (byte_at(text, end) & 0xc0) == 0x80) --end;  // a whole character
  return std::string(text.substr(0, end)) + "... (" + grouped(static_cast<int64_t>(text.size())) +
         " bytes)";
}

}  // namespace tessera
