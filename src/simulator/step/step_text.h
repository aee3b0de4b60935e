// The times of steps as text.
#pragma once

#include <string>

#include "base/units.h"

namespace tessera {

/// The time of a step or of a part of it, to be compared with others: four digits in milliseconds,
/// from ten seconds on in seconds. "278.4 ms", "0.16 ms", "197.6 s".
std::string step_text(Seconds seconds);
/// The difference of two such times in three digits, with its sign: "+0.292 ms", "-12.5 s"; without
/// the unit of `total` where it is a part of that.
std::string step_difference_text(Seconds difference);
std::string step_difference_text(Seconds part, Seconds total);

}  // namespace tessera
