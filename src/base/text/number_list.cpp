#include "base/text/number_list.h"

#include <vector>

#include "base/text/text.h"

namespace tessera {
namespace {

constexpr size_t kMinSteps = 6, kMaxParts = 8, kFirstParts = 4;

bool has_even_steps(std::span<const int> numbers) {
  for (size_t i = 2; i < numbers.size(); ++i)
    if (numbers[i] - numbers[i - 1] != numbers[1] - numbers[0]) return false;
  return true;
}

}  // namespace

std::string number_list(std::span<const int> numbers) {
  const auto text = [&](size_t i) { return std::to_string(numbers[i]); };
  const bool is_run = numbers.size() > 1 && numbers[1] == numbers[0] + 1;
  if (numbers.size() >= kMinSteps && !is_run && has_even_steps(numbers))
    return text(0) + "," + text(1) + ",..," + text(numbers.size() - 1);
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    parts.push_back(end == i + 1 ? text(i) : text(i) + "-" + text(end - 1));
    i = end;
  }
  if (parts.size() <= kMaxParts) return join(parts, ",");
  const std::string last = parts.back();
  parts.resize(kFirstParts);
  return join(parts, ",") + ",..," + last + " (" + std::to_string(numbers.size()) + ")";
}

}  // namespace tessera
