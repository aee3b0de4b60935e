// Numbers with units, as cost files have them: "5 GB/s", "1 us".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// A unit of a quantity: `1 unit` is `times / per` of the basic unit.
struct Unit {
  std::string_view name;
  double times = 1;
  double per = 1;
};

/// Units of one quantity, the basic one first, then from the largest to the smallest; units that
/// are read but not printed follow.
struct UnitTable {
  std::string_view quantity;  // "a time"
  std::string_view example;   // "1 us"
  std::span<const Unit> units;
  size_t printed = 0;  // of the units
};

const UnitTable& time_units();        // s, ms, us, ns
const UnitTable& byte_units();        // B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB
const UnitTable& byte_rate_units();   // B/s, ... TB/s; Gb/s (bits) and GiB/s are read, too
const UnitTable& work_units();        // flop, ... Tflop
const UnitTable& arithmetic_units();  // flop/s, ... Pflop/s
const UnitTable& share_units();       // %

/// The number in the basic unit: parse_quantity("3 us", time_units()) = 3e-6. nullopt when the text
/// is no number with one of the units.
std::optional<double> parse_quantity(std::string_view text, const UnitTable& table);

/// The shortest text that parses to the same number: "3 us". Where no text in a unit does, as for
/// some shares in %, it parses to one that differs in the last digit.
std::string quantity_text(double value, const UnitTable& table);

/// "s, ms, us or ns", for messages.
std::string unit_names(const UnitTable& table);

}  // namespace tessera
