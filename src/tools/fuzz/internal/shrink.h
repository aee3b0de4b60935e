// Reduces a failing case to a small one that fails in the same way.
#pragma once

#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {

/// Removes marks, steps, outputs, updates, ops, variables, inputs and mesh axes as long as the case
/// still fails. The result of a removed op is replaced by an input, which is sampled from the range
/// of that result.
///
///   requires  run_case(failing, faults) returns `failure`
///   ensures   the result fails at the same stage, and stays in the range of its mode
///   time      at most `runs` runs of a case
FuzzCase shrink_case(FuzzCase failing, const CaseFailure& failure, const CaseFaults& faults = {},
                     int runs = 3000);

}  // namespace tessera::fuzz
