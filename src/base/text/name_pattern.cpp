#include "base/text/name_pattern.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

// Each brace multiplies the choices, and each choice is compared with every name.
constexpr size_t kMaxChoices = 4096;
constexpr int64_t kMaxBraces = 64;

[[noreturn]] void refuse(std::string_view pattern, const std::string& has) {
  constexpr size_t kShown = 40;
  throw UserError("the pattern '" + std::string(pattern.substr(0, kShown)) +
                      (pattern.size() > kShown ? "...'" : "'") + " has " + has,
                  "each pair of braces multiplies the names that are compared",
                  "use '*' in place of some braces, or several patterns", ExitCode::kBadConfig);
}

int read_bound(std::string_view text, std::string_view pattern) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    refuse_pattern(pattern, "a range is of two numbers");
  return value;
}

/// Adds the patterns without braces that `pattern` stands for.
void add_choices(const std::string& pattern, std::string_view whole,
                 std::vector<std::string>& choices) {
  const size_t brace = pattern.find('{');
  const size_t close = brace == std::string::npos ? brace : pattern.find('}', brace);
  if (close == std::string::npos) {
    choices.push_back(pattern);
    if (choices.size() > kMaxChoices)
      refuse(whole, "more than " + std::to_string(kMaxChoices) + " choices");
    return;
  }
  const std::string_view list = std::string_view(pattern).substr(brace + 1, close - brace - 1);
  for (const std::string& choice : alternatives_of(list, whole))
    add_choices(pattern.substr(0, brace) + choice + pattern.substr(close + 1), whole, choices);
}

/// Greedy matching with one point to backtrack to: the last star.
bool matches_stars(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

void refuse_pattern(std::string_view pattern, const std::string& why) {
  throw UserError("'" + std::string(pattern) + "' is not a pattern of names", why,
                  "write it as blocks.{0..23}.attn.{q,k,v}.dot", ExitCode::kBadConfig);
}

std::vector<std::string> alternatives_of(std::string_view list, std::string_view pattern) {
  std::vector<std::string> choices;
  for (size_t begin = 0, end = 0; begin <= list.size(); begin = end + 1) {
    end = std::min(list.find(',', begin), list.size());
    std::string item(list.substr(begin, end - begin));
    const size_t dots = item.find("..");
    if (dots == std::string::npos) {
      choices.push_back(std::move(item));
      continue;
    }
    const int first = read_bound(std::string_view(item).substr(0, dots), pattern);
    const int last = read_bound(std::string_view(item).substr(dots + 2), pattern);
    if (last < first || last - first >= kMaxAlternatives)
      refuse_pattern(pattern, "a range goes from a number to a larger one, over at most a million");
    for (int i = first; i <= last; ++i) choices.push_back(std::to_string(i));
  }
  return choices;
}

NamePattern::NamePattern(std::string_view pattern) {
  if (std::count(pattern.begin(), pattern.end(), '{') > kMaxBraces)
    refuse(pattern, "more than " + std::to_string(kMaxBraces) + " braces");
  std::vector<std::string> choices;
  add_choices(std::string(pattern), pattern, choices);
  for (std::string& choice : choices) {
    const size_t first = choice.find('*'), last = choice.rfind('*');
    if (first == std::string::npos) {
      names_.insert(std::move(choice));
      continue;
    }
    const size_t end = choice.size() - last - 1;
    const std::string beginning = choice.substr(0, first);
    starred_[first][beginning].push_back({std::move(choice), end});
  }
}

/// Most names differ from it in their ends.
bool NamePattern::Choice::matches(std::string_view name) const {
  return name.size() >= end && std::equal(name.end() - end, name.end(), text.end() - end) &&
         matches_stars(text, name);
}

bool NamePattern::matches(std::string_view name) const {
  if (names_.contains(name)) return true;
  for (const auto& [length, choices] : starred_) {
    if (length > name.size()) return false;
    const auto found = choices.find(name.substr(0, length));
    if (found != choices.end() && std::ranges::any_of(found->second, [&](const Choice& choice) {
          return choice.matches(name);
        }))
      return true;
  }
  return false;
}

std::optional<std::vector<std::string>> NamePattern::names() const {
  if (!starred_.empty()) return std::nullopt;
  return std::vector<std::string>(names_.begin(), names_.end());
}

}  // namespace tessera
