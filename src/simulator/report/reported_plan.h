// What a page says of one plan, and of a choice among plans.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/mapping/mapping.h"
#include "simulator/step/step_prediction.h"

namespace tessera {

/// The placement of a tensor, or of an identical tensor of each layer.
struct ShardingRow {
  std::string name;       // "blocks.{0..3}.ffn.up.weight"
  std::string placement;  // "f32[8, 16@tp]"
  std::string local;      // the part of a rank: "f32[8, 8]"
  Bytes bytes{0};         // of that part
};

struct MeasuredStep {
  Seconds step{0};
  Bytes peak{0};
};

/// What the page says of one plan. What the pointers point to outlives the call.
struct ReportedPlan {
  std::string name;     // "dp2-tp2"
  std::string summary;  // "mesh dp=2 tp=2, 4 ranks, on 4xa100-80g"
  const TaskGraph* tasks = nullptr;
  const Deployment* deployment = nullptr;
  const StepPrediction* prediction = nullptr;  // with PredictOptions::explains
  Flops model_flops{0};                        // of a step
  int64_t units = 0;                           // of a step
  std::string unit = "token";
  std::vector<ShardingRow> shardings = {};
  const Mapping* mapping = nullptr;  // nullptr: the ranks were not mapped
  std::optional<MeasuredStep> measured = {};
};

/// A table with its title. A letter of `alignment` per column: 'l' left, 'r' right, 'w' left and
/// wide.
struct ReportedTable {
  std::string title;  // "Compared"
  std::vector<std::string> header = {};
  std::string alignment = {};
  std::vector<std::vector<std::string>> rows = {};
};

/// What stands above the plans when they were chosen among others.
struct ReportedChoice {
  std::string verdict;  // one line
  bool fits = true;     // does a plan fit?
  std::vector<std::string> notes = {};
  std::vector<ReportedTable> tables = {};  // those without rows are left out
};

}  // namespace tessera
