// Runs one step of a compiled program, and keeps the registers of each rank.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "runtime/runtime/runtime.h"

namespace tessera {

/// The contents of a register on one rank: its box of the tensor, and the values in it. The values
/// of a partial register are not reduced.
struct Held {
  Box box;
  std::vector<float> values;
};

/// The registers by name (f32 only), then by rank.
using HeldByRank = std::map<std::string, std::vector<Held>>;

struct ObservedStep {
  HeldByRank held;
  TensorMap results;
};

/// Runs one step.
///   requires  variables are set, ranks are 0, 1, ...
ObservedStep run_observed(Runtime& runtime, LoadedProgram& program,
                          const std::map<std::string, const Tensor*>& inputs);

/// The values as text, "3.5 4.5 | 5.5 4.5": rows of the last dim between bars, to four digits.
std::string values_text(const Held& held);

}  // namespace tessera
