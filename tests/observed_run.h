// One step of a compiled program on its ranks, with what each rank held in each register.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lower/lower.h"
#include "runtime/runtime.h"

namespace tessera {

/// What one rank held: its box of the tensor, and the values in it. Those of a partial register are
/// not reduced.
struct Held {
  Box box;
  std::vector<float> values;
};

/// By name of the f32 register, then by rank.
using HeldByRank = std::map<std::string, std::vector<Held>>;

struct ObservedStep {
  HeldByRank held;
  TensorMap results;
};

/// Runs one step.
///   requires  variables are set, ranks are 0, 1, ...
ObservedStep run_observed(Runtime& runtime, LoadedProgram& program,
                          const std::map<std::string, const Tensor*>& inputs);

/// "3.5 4.5 | 5.5 4.5": rows of the last dim between bars, to four digits.
std::string values_text(const Held& held);

}  // namespace tessera
