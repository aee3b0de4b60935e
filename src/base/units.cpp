#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace tessera {
namespace {

std::string one_decimal(double number) {
  std::string text = fmt::format("{:.1f}", number);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

std::string to_text(Bytes bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto number = static_cast<double>(bytes.value());
  size_t unit = 0;
  while (number >= 1023.95 &&
         unit + 1 < kUnits.size()) {  // what would print as 1024 is 1 of the next unit
    number /= 1024;
    ++unit;
  }
  return one_decimal(number) + " " + kUnits[unit];
}

std::string to_text(Seconds seconds) {
  const double s = seconds.value();
  // The bounds are the numbers at which one decimal rounds up to 1 of the next unit.
  if (s >= 59.95) return fmt::format("{}m{:02d}s", std::llround(s) / 60, std::llround(s) % 60);
  if (s >= 0.99995) return one_decimal(s) + " s";
  if (s >= 0.99995e-3) return one_decimal(s * 1e3) + " ms";
  return one_decimal(s * 1e6) + " us";
}

}  // namespace tessera
