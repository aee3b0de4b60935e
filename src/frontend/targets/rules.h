// What programs that run plans refuse: a table of rules for each, with the place of the check in
// their source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/targets/setting.h"

namespace tessera {

/// A rule that a setting breaks.
struct BrokenRule {
  std::string_view rule;    // "tp divides the heads"
  std::string reason;       // "tp = 8, and the model has 12 heads"
  std::string_view source;  // "models/common/decoder.py:154"
};

struct TargetMachines {
  int ranks = 0;
  int ranks_of_machine = 0;  // of the smallest machine
};

/// The version whose rules these are: "torchtitan 0.3.0".
std::string_view version_of(Target target);

/// Every rule of the target that the setting breaks; empty: it runs.
std::vector<BrokenRule> broken_rules(Target target, const ParallelSetting& setting,
                                     const TransformerSizes& model, const TargetMachines& machines);

/// The rules as a table for readers: name and source.
std::vector<std::pair<std::string_view, std::string_view>> rules_of(Target target);

}  // namespace tessera
