// Candidates that differ from another one in a decision that saves memory.
#pragma once

#include <string>

#include "planner/search/internal/candidates/candidate.h"

namespace tessera {

/// A candidate with the plan of `base`, and with its name in which `decisions` stand in place of
/// what it says of the same keys. The name of a preset is one again: "dp=2,offload=state"; one
/// device is the preset "dp=1". A plan that the user gives is then no plan of the user.
///   decisions  keys of presets: "recompute=auto,activation_mib=8"; without "=" a key is left out
Candidate with_name_of(const Candidate& base, const std::string& decisions);

/// In MiB, as plans say it: whole ones above 100, else thousandths, rounded down.
std::string mib_text(Bytes bytes);

}  // namespace tessera
