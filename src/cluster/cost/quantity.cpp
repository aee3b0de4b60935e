#include "cluster/cost/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::array kTimes{Unit{"s"}, Unit{"ms", 1, 1e3}, Unit{"us", 1, 1e6}, Unit{"ns", 1, 1e9}};

constexpr std::array kBytes{Unit{"B"},
                            Unit{"TB", 1e12},
                            Unit{"TiB", 1LL << 40},
                            Unit{"GB", 1e9},
                            Unit{"GiB", 1 << 30},
                            Unit{"MB", 1e6},
                            Unit{"MiB", 1 << 20},
                            Unit{"kB", 1e3},
                            Unit{"KiB", 1 << 10}};

constexpr std::array kByteRates{
    Unit{"B/s"},       Unit{"TB/s", 1e12},     Unit{"GB/s", 1e9},      Unit{"MB/s", 1e6},
    Unit{"kB/s", 1e3}, Unit{"GiB/s", 1 << 30}, Unit{"MiB/s", 1 << 20}, Unit{"Gb/s", 1e9, 8}};

constexpr std::array kArithmetic{Unit{"flop/s"},       Unit{"Pflop/s", 1e15}, Unit{"Tflop/s", 1e12},
                                 Unit{"Gflop/s", 1e9}, Unit{"Mflop/s", 1e6},  Unit{"kflop/s", 1e3}};

constexpr std::array kWork{Unit{"flop"}, Unit{"Tflop", 1e12}, Unit{"Gflop", 1e9},
                           Unit{"Mflop", 1e6}, Unit{"kflop", 1e3}};

constexpr std::array kShares{Unit{"%", 1, 100}};

double in_basic_unit(double number, const Unit& unit) {
  return number * unit.times / unit.per;
}

/// The number that gives the value in the unit, or the nearest to it: a quotient of two numbers is
/// not always the inverse of their product.
double number_in(const Unit& unit, double value) {
  const double number = value * unit.per / unit.times;
  const double above = std::nextafter(number, std::numeric_limits<double>::infinity()),
               below = std::nextafter(number, -std::numeric_limits<double>::infinity());
  for (const double near : {number, above, below})
    if (in_basic_unit(near, unit) == value) return near;
  return number;
}

std::string number_text(double number) {
  std::string text = double_text(number);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

const UnitTable& time_units() {
  static constexpr UnitTable table{"a time", "1 us", kTimes, 4};
  return table;
}
const UnitTable& byte_units() {
  static constexpr UnitTable table{"a number of bytes", "80 GB", kBytes, 9};
  return table;
}
const UnitTable& byte_rate_units() {
  static constexpr UnitTable table{"a rate of bytes", "5 GB/s", kByteRates, 5};
  return table;
}
const UnitTable& work_units() {
  static constexpr UnitTable table{"a number of operations", "1 Gflop", kWork, 5};
  return table;
}
const UnitTable& arithmetic_units() {
  static constexpr UnitTable table{"a rate of operations", "20 Gflop/s", kArithmetic, 6};
  return table;
}
const UnitTable& share_units() {
  static constexpr UnitTable table{"a share", "1 %", kShares, 1};
  return table;
}

std::optional<double> parse_quantity(std::string_view text, const UnitTable& table) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view name = trim(text.substr(static_cast<size_t>(end - text.data())));
  for (const Unit& unit : table.units)
    if (unit.name == name) return in_basic_unit(number, unit);
  return std::nullopt;
}

std::string quantity_text(double value, const UnitTable& table) {
  const Unit& basic = table.units.front();
  std::string shortest;
  for (const Unit& unit : table.units.first(table.printed)) {
    const double number = value * unit.per / unit.times;
    if (in_basic_unit(number, unit) != value) continue;
    const std::string text = number_text(number) + " " + std::string(unit.name);
    if (shortest.empty() || text.size() < shortest.size()) shortest = text;
  }
  return shortest.empty() ? number_text(number_in(basic, value)) + " " + std::string(basic.name)
                          : shortest;
}

std::string unit_names(const UnitTable& table) {
  std::vector<std::string> names;
  for (const Unit& unit : table.units) names.emplace_back(unit.name);
  if (names.size() == 1) return names.front();
  const std::string last = names.back();
  names.pop_back();
  return join(names, ", ") + " or " + last;
}

}  // namespace tessera
