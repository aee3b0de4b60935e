// `tessera plan --target`: the best setting of another program, and its files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/targets/current_setting.h"
#include "frontend/targets/search.h"
#include "frontend/targets/setting.h"
#include "frontend/targets/target_plan.h"
#include "frontend/targets/writers.h"
#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// The setting that the user runs now, as --current gives it.
struct GivenSetting {
  CurrentText text;
  CurrentRun run;
};
///   throws  UserError as current_text and current_run
GivenSetting given_setting(Target target, const std::string& text_or_file);
/// "train.batch=1024" and "model.context=4096", where the flags say it.
std::vector<std::string> sets_of(const CurrentRun& run);

/// "torchtitan" for --target torchtitan.
///   throws  UserError (2) for another name, with the legal ones
Target target_named(const std::string& name);

struct TargetPlanned {
  const Planned& planned;
  Target target = Target::kTorchtitan;
  TargetResult result;
  std::vector<std::string> notes = {};
  /// The best plan without the rules of the target, where it was searched.
  std::optional<EvaluatedCandidate> free = {};

  const TargetResult::Simulated* best() const {
    return result.best ? &result.simulated[*result.best] : nullptr;
  }
  const TargetResult::Simulated* current() const {
    return result.current ? &result.simulated[*result.current] : nullptr;
  }
  TargetPlan written(const ParallelSetting& setting, const std::string& model_name,
                     const std::string& verdict) const;
};

/// Searches.
///   throws  UserError as read_current and search_target
TargetPlanned find_target_plan(const Planned& planned, Target target,
                               const std::optional<GivenSetting>& given,
                               const EvaluationOptions& evaluation);

}  // namespace tessera
