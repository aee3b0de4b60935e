#include "ir/models/internal/graph_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kRows = "$rows", kPerRow = "$per_row", kUnbiased = "$unbiased",
                           kKey = "$key";
constexpr std::string_view kRandomOp = " = random_uniform(", kKeyAttribute = "key=";

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' || c == '-' ||
         c == '_' || c == '$';
}

/// The words, and what stands between them.
std::vector<std::string_view> pieces(std::string_view text) {
  std::vector<std::string_view> all;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && is_of_word(text[end]) == is_of_word(text[begin])) ++end;
    all.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return all;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view word) {
  Number number = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), number);
  if (result.ec != std::errc{} || result.ptr != word.data() + word.size()) return std::nullopt;
  return number;
}

using Words = std::array<std::string_view, 3>;

std::optional<std::string> linear(const Words& words) {
  std::array<int64_t, 3> numbers;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto number = parse_number<int64_t>(words[i]);
    if (!number) return std::nullopt;
    numbers[i] = *number;
  }
  const int64_t change = numbers[1] - numbers[0], rows = kRowsToCompare[1] - kRowsToCompare[0];
  if (change % rows != 0) return std::nullopt;
  const int64_t slope = change / rows, start = numbers[0] - slope * kRowsToCompare[0];
  if (numbers[2] != start + slope * kRowsToCompare[2]) return std::nullopt;
  return std::string(kRows) + (slope == 1 ? "" : fmt::format("*{}", slope)) +
         (start == 0 ? "" : fmt::format("{:+}", start));
}

/// n / (n - 1) for n = rows * of_row, times a factor: a variance of n terms without bias.
double unbiased_at(int64_t rows, int64_t of_row, double factor) {
  const double n = static_cast<double>(rows) * static_cast<double>(of_row);
  return n / (n - 1) * factor;
}

std::optional<std::string> unbiased(const std::array<double, 3>& numbers) {
  // The second n is twice the first one, so numbers[1] / numbers[0] is (1 - 1/n) / (1 - 1/2n).
  const double ratio = numbers[1] / numbers[0], share = (1 - ratio) / (1 - ratio / 2);
  const double terms = 1 / share / static_cast<double>(kRowsToCompare[0]);
  if (!(terms > 0.5 && terms < 1e7)) return std::nullopt;
  const int64_t of_row = std::llround(terms);
  const double n = static_cast<double>(kRowsToCompare[0] * of_row);
  const double near = numbers[0] * (n - 1) / n;
  for (const double factor : {near, std::nextafter(near, 0.0), std::nextafter(near, 2 * near)})
    if (std::ranges::equal(kRowsToCompare, numbers, {},
                           [&](int64_t rows) { return unbiased_at(rows, of_row, factor); }))
      return fmt::format("{}*{}*{}", kUnbiased, of_row, double_text(factor));
  return std::nullopt;
}

std::optional<std::string> proportional(const Words& words) {
  std::array<double, 3> numbers;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto number = parse_number<double>(words[i]);
    if (!number) return std::nullopt;
    numbers[i] = *number;
  }
  const auto fits = [&](auto value) {
    for (size_t i = 0; i < numbers.size(); ++i)
      if (value(static_cast<double>(kRowsToCompare[i])) != numbers[i]) return false;
    return true;
  };
  const double first = static_cast<double>(kRowsToCompare[0]);
  const double factor = numbers[0] / first, quotient = numbers[0] * first;
  if (fits([&](double rows) { return rows * factor; }))
    return fmt::format("{}*{}", kRows, double_text(factor));
  if (fits([&](double rows) { return quotient / rows; }))
    return fmt::format("{}*{}", kPerRow, double_text(quotient));
  return unbiased(numbers);
}

[[noreturn]] void refuse(const std::string& name, std::string_view line, const std::string& why) {
  throw UserError(fmt::format("{} cannot be written as a graph file: {}", name, excerpt(line)), why,
                  "write the graph so that only numbers follow from the rows of the batch",
                  ExitCode::kBadData);
}

/// The line with `$key` for the key of a random op.
std::string with_key(const std::string& line) {
  const size_t op = line.find(kRandomOp);
  if (op == std::string::npos) return line;
  const size_t key = line.find(kKeyAttribute, op);
  ensure(key != std::string::npos, "a random op has a key");
  const size_t begin = key + kKeyAttribute.size(), end = line.find_first_of(",}", begin);
  return line.substr(0, begin) + std::string(kKey) + line.substr(end);
}

std::string line_for_any_rows(const Words& lines, const std::string& name) {
  for (const std::string_view line : lines)
    if (line.find('$') != std::string_view::npos)
      refuse(name, line, "a '$' stands for what depends on the rows");
  if (lines[0] == lines[1] && lines[1] == lines[2]) return std::string(lines[0]);
  std::array<std::vector<std::string_view>, 3> all;
  for (size_t i = 0; i < lines.size(); ++i) all[i] = pieces(lines[i]);
  if (all[0].size() != all[1].size() || all[1].size() != all[2].size())
    refuse(name, lines[0], "another number of rows gives another form of this line");
  std::string text;
  for (size_t i = 0; i < all[0].size(); ++i) {
    const Words words{all[0][i], all[1][i], all[2][i]};
    if (words[0] == words[1] && words[1] == words[2]) {
      text += words[0];
      continue;
    }
    std::optional<std::string> symbol = linear(words);
    if (!symbol) symbol = proportional(words);
    if (!symbol)
      refuse(name, lines[0],
             fmt::format("'{}' of {} rows is '{}' of {} rows, which is neither linear in them nor "
                         "a quotient by them",
                         words[0], kRowsToCompare[0], words[1], kRowsToCompare[1]));
    text += *symbol;
  }
  return text;
}

/// Replaces the symbols of one line.
class LineOfRows {
 public:
  LineOfRows(std::string_view line, int64_t rows, uint64_t seed)
      : line_(line), rows_(rows), seed_(seed) {}

  std::string text() {
    std::string text;
    while (at_ < line_.size()) {
      const size_t symbol = std::min(line_.find('$', at_), line_.size());
      text += line_.substr(at_, symbol - at_);
      at_ = symbol;
      if (at_ < line_.size()) text += value();
    }
    return text;
  }

 private:
  [[noreturn]] void fail() const {
    throw UserError("'" + excerpt(line_) + "' has a symbol that is not understood",
                    "symbols are $rows, $rows*N, $rows*N+M, $per_row*N, $unbiased*N*M and $key",
                    "write one of them, or a number", ExitCode::kBadData);
  }
  bool accept(std::string_view token) {
    if (!line_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  /// The number that begins here.
  std::string_view word() {
    const size_t begin = at_;
    while (at_ < line_.size() &&
           (is_of_word(line_[at_]) &&
            !((line_[at_] == '+' || line_[at_] == '-') && at_ > begin && line_[at_ - 1] != 'e')))
      ++at_;
    return line_.substr(begin, at_ - begin);
  }
  std::string value() {
    if (accept(kKey)) return key();
    if (accept(kPerRow)) {
      const auto quotient = accept("*") ? parse_number<double>(word()) : std::nullopt;
      if (!quotient) fail();
      return double_text(*quotient / static_cast<double>(rows_));
    }
    if (accept(kUnbiased)) {
      const auto of_row = accept("*") ? parse_number<int64_t>(word()) : std::nullopt;
      const auto factor = accept("*") ? parse_number<double>(word()) : std::nullopt;
      if (!of_row || *of_row < 1 || !factor) fail();
      return double_text(unbiased_at(rows_, *of_row, *factor));
    }
    if (!accept(kRows)) fail();
    std::string_view factor = "1";
    if (accept("*")) factor = word();
    if (const auto slope = parse_number<int64_t>(factor)) return integer(*slope);
    const auto number = parse_number<double>(factor);
    if (!number) fail();
    return double_text(static_cast<double>(rows_) * *number);
  }
  std::string integer(int64_t slope) {
    int64_t start = 0, product = 0, sum = 0;
    if (at_ < line_.size() && (line_[at_] == '+' || line_[at_] == '-')) {
      const bool is_negative = line_[at_++] == '-';
      const auto number = parse_number<int64_t>(word());
      if (!number || *number < 0) fail();
      start = is_negative ? -*number : *number;
    }
    if (__builtin_mul_overflow(slope, rows_, &product) ||
        __builtin_add_overflow(product, start, &sum))
      fail();
    return std::to_string(sum);
  }
  std::string key() const {
    const std::string_view trimmed = trim(line_);
    const auto key = random_key(seed_, trimmed.substr(0, trimmed.find(' ')));
    return std::to_string(static_cast<int64_t>(key));
  }

  std::string_view line_;
  int64_t rows_;
  uint64_t seed_;
  size_t at_ = 0;
};

}  // namespace

std::string text_for_any_rows(const std::array<std::string, 3>& texts, const std::string& name) {
  std::array<std::vector<std::string>, 3> lines;
  for (size_t i = 0; i < texts.size(); ++i) lines[i] = split_text(texts[i], '\n');
  if (lines[0].size() != lines[1].size() || lines[1].size() != lines[2].size())
    refuse(name, "its graph", "another number of rows gives another number of ops");
  std::string text;
  for (size_t i = 0; i < lines[0].size(); ++i)
    if (!lines[0][i].empty())
      text += with_key(line_for_any_rows({lines[0][i], lines[1][i], lines[2][i]}, name)) + "\n";
  return text;
}

std::string text_for_rows(std::string_view text, int64_t rows, uint64_t seed) {
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    result += line.find('$') == std::string_view::npos ? std::string(line)
                                                       : LineOfRows(line, rows, seed).text();
    result += '\n';
    begin = end + 1;
  }
  return result;
}

}  // namespace tessera
