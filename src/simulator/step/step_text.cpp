#include "simulator/step/step_text.h"

#include <fmt/format.h>

#include <cmath>

namespace tessera {
namespace {

/// The unit of the times of steps, and how many of them are a second.
struct StepUnit {
  const char* name;
  double count;
};
StepUnit step_unit(Seconds seconds) {
  constexpr double kFromSeconds = 9.9995;  // in four digits 10 s
  return std::abs(seconds.value()) < kFromSeconds ? StepUnit{"ms", 1e3} : StepUnit{"s", 1};
}

}  // namespace

std::string step_text(Seconds seconds) {
  const StepUnit unit = step_unit(seconds);
  const double number = unit.count * seconds.value();
  const bool has_more_digits = std::abs(number) >= 9999.5;
  return fmt::format(fmt::runtime(has_more_digits ? "{:.0f} {}" : "{:.4g} {}"), number, unit.name);
}

std::string step_difference_text(Seconds difference) {
  return step_difference_text(difference, difference) + " " + step_unit(difference).name;
}

std::string step_difference_text(Seconds part, Seconds total) {
  const double number = step_unit(total).count * part.value();
  const bool has_more_digits = std::abs(number) >= 999.5;
  return fmt::format(fmt::runtime(has_more_digits ? "{:+.0f}" : "{:+.3g}"), number);
}

}  // namespace tessera
