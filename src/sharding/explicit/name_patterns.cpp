#include "sharding/explicit/name_patterns.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "base/error.h"
#include "base/text/name_pattern.h"
#include "base/text/text.h"

namespace tessera {
namespace {

/// A part of a name: a word, a point, or a number; with the alternatives of several names.
struct Token {
  bool is_number = false;
  std::vector<std::string> choices;
};
using Tokens = std::vector<Token>;

bool is_digit(char letter) {
  return std::isdigit(static_cast<unsigned char>(letter)) != 0;
}

/// A number of which the text is what to_string writes.
bool is_plain_number(std::string_view text) {
  return text.size() < 10 && is_digit(text.front()) && (text.front() != '0' || text.size() == 1);
}

Tokens tokens_of(const std::string& name) {
  if (name.find_first_of("{}") != std::string::npos)
    throw UserError("the name '" + name + "' has a brace",
                    "braces stand for alternatives in the patterns of a plan", "rename it",
                    ExitCode::kBadConfig);
  Tokens tokens;
  const auto kind_of_letter = [](char letter) {
    return letter == '.' ? 0 : is_digit(letter) ? 1 : 2;
  };
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin + 1;
    while (end < name.size() && kind_of_letter(name[end]) == kind_of_letter(name[begin])) ++end;
    std::string text = name.substr(begin, end - begin);
    const bool is_number = is_plain_number(text);
    tokens.push_back({is_number, {std::move(text)}});
    begin = end;
  }
  return tokens;
}

/// All but token `at`, as a key.
std::string key_without(const Tokens& tokens, size_t at) {
  std::string key = std::to_string(at);
  for (size_t i = 0; i < tokens.size(); ++i) {
    key += '{';
    if (i != at)
      for (const std::string& choice : tokens[i].choices) key += choice + ",";
  }
  return key;
}

/// Joins the patterns that differ in token `at` only, when that is a number (or a word).
std::vector<Tokens> merged(std::vector<Tokens> patterns, size_t at, bool numbers) {
  std::vector<Tokens> result;
  std::unordered_map<std::string, size_t> known;
  for (Tokens& tokens : patterns) {
    const bool may_differ = at < tokens.size() && tokens[at].is_number == numbers &&
                            tokens[at].choices.front().find(',') == std::string::npos;
    if (may_differ) {
      const auto [found, is_new] = known.try_emplace(key_without(tokens, at), result.size());
      if (!is_new) {
        auto& choices = result[found->second][at].choices;
        choices.insert(choices.end(), tokens[at].choices.begin(), tokens[at].choices.end());
        continue;
      }
    }
    result.push_back(std::move(tokens));
  }
  return result;
}

/// "0..3,7" for 0, 1, 2, 3, 7.
std::string ranges_text(const std::vector<std::string>& choices) {
  std::vector<int> numbers;
  for (const std::string& choice : choices) numbers.push_back(std::stoi(choice));
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> ranges;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    const std::string first = std::to_string(numbers[begin]);
    ranges.push_back(end == begin + 1 ? first : first + ".." + std::to_string(numbers[end - 1]));
    begin = end;
  }
  return join(ranges, ",");
}

std::string to_text(const Tokens& tokens) {
  std::string text;
  for (const Token& token : tokens)
    text +=
        token.choices.size() == 1
            ? token.choices.front()
            : "{" + (token.is_number ? ranges_text(token.choices) : join(token.choices, ",")) + "}";
  return text;
}

}  // namespace

std::vector<std::string> to_patterns(const std::vector<std::string>& names) {
  std::vector<Tokens> patterns;
  size_t longest = 0;
  for (const std::string& name : names) {
    patterns.push_back(tokens_of(name));
    longest = std::max(longest, patterns.back().size());
  }
  for (const bool numbers : {true, false})
    for (size_t at = longest; at-- > 0;) patterns = merged(std::move(patterns), at, numbers);
  std::vector<std::string> texts;
  for (const Tokens& tokens : patterns) texts.push_back(to_text(tokens));
  return texts;
}

std::vector<std::string> names_of_pattern(std::string_view pattern) {
  std::vector<std::string> names{""};
  for (std::string_view rest = pattern; !rest.empty();) {
    const size_t open = std::min(rest.find_first_of("{}"), rest.size());
    for (std::string& name : names) name += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) break;
    const size_t close = rest.find('}');
    if (rest.front() == '}' || close == std::string_view::npos || rest.find('{', 1) < close)
      refuse_pattern(pattern, "its braces do not match, or are nested");
    std::vector<std::string> next;
    const std::vector<std::string> choices = alternatives_of(rest.substr(1, close - 1), pattern);
    for (const std::string& name : names)
      for (const std::string& choice : choices) next.push_back(name + choice);
    names = std::move(next);
    rest.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace tessera
