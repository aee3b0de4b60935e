// A plan for another program, and what it reads of it.
#pragma once

#include <string>

#include "frontend/targets/setting.h"

namespace tessera {

/// A flag of a command line. `value` is empty for one that takes none.
struct Flag {
  std::string name;  // "--tensor-model-parallel-size"
  std::string value = {};
  bool operator==(const Flag&) const = default;
};

/// A file for the target.
struct TargetFile {
  std::string name;
  std::string text;
};

/// What files are made of.
struct TargetPlan {
  Target target = Target::kTorchtitan;
  ParallelSetting setting;
  TransformerSizes model;
  std::string model_name;    // as the user named it, for comments and for a known base
  int ranks_of_machine = 0;  // devices of a machine, which a launcher starts
  std::string verdict;       // for README.md
};

}  // namespace tessera
