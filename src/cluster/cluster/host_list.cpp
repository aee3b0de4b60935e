#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"

namespace tessera {
namespace {

constexpr size_t kMaxNames = 1 << 16;
constexpr size_t kMaxNameLength = 255;  // of a host name: RFC 1035
constexpr int64_t kMaxBrackets = 8;     // of one name

[[noreturn]] void refuse_list(std::string_view list, const std::string& why) {
  throw UserError("'" + std::string(list) + "' is no list of names", why,
                  "write names as n[0-3,7],m: a prefix, numbers and ranges in [ ]",
                  ExitCode::kBadConfig);
}

void check_length(std::string_view name, std::string_view list) {
  if (name.size() > kMaxNameLength)
    refuse_list(list, "a name has more than 255 characters, the longest of a host");
}

int64_t number_of(std::string_view text, std::string_view list) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || text.size() > 9)
    refuse_list(list, "'" + std::string(text) + "' is no number of at most nine digits");
  return number;
}

std::string padded(int64_t number, size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

/// The numbers of one pair of brackets, as text.
std::vector<std::string> numbers_of(std::string_view inside, std::string_view list) {
  std::vector<std::string> numbers;
  for (const std::string& part : split_text(inside, ',')) {
    const std::vector<std::string> ends = split_text(part, '-');
    if (ends.size() > 2) refuse_list(list, "'" + part + "' is no number and no range");
    const int64_t first = number_of(ends.front(), list), last = number_of(ends.back(), list);
    if (last < first) refuse_list(list, "the range '" + part + "' ends before it begins");
    if (static_cast<size_t>(last - first) >= kMaxNames - numbers.size())
      refuse_list(list, "it has more than 65,536 names");
    for (int64_t number = first; number <= last; ++number)
      numbers.push_back(padded(number, ends.front().size()));
  }
  return numbers;
}

/// The names of one item: "r[0-1]n[0-3]".
std::vector<std::string> names_of(std::string_view item, std::string_view list) {
  if (std::count(item.begin(), item.end(), '[') > kMaxBrackets)
    refuse_list(list, "a name has more than 8 pairs of brackets");
  const size_t open = item.find('['), close = item.find(']');
  if (open == std::string_view::npos) {
    if (close != std::string_view::npos) refuse_list(list, "a ] has no [");
    if (item.empty()) refuse_list(list, "a name is empty");
    check_length(item, list);
    return {std::string(item)};
  }
  if (close == std::string_view::npos || close < open) refuse_list(list, "a [ has no ]");
  const std::string_view rest = item.substr(close + 1);
  const std::vector<std::string> ends =
      rest.empty() ? std::vector<std::string>{""} : names_of(rest, list);
  const std::vector<std::string> numbers =
      numbers_of(item.substr(open + 1, close - open - 1), list);
  if (numbers.size() * ends.size() > kMaxNames) refuse_list(list, "it has more than 65,536 names");
  std::vector<std::string> names;
  for (const std::string& number : numbers)
    for (const std::string& end : ends) {
      names.push_back(std::string(item.substr(0, open)) + number + end);
      check_length(names.back(), list);
    }
  return names;
}

}  // namespace

std::vector<std::string> expand_names(std::string_view list) {
  std::vector<std::string> names;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    for (std::string& name : names_of(trim(list.substr(begin, i - begin)), list)) {
      names.push_back(std::move(name));
      if (names.size() > kMaxNames) refuse_list(list, "it has more than 65,536 names");
    }
    begin = i + 1;
  }
  return names;
}

}  // namespace tessera
