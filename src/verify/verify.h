// Compares a run under a plan with the serial program, tensor by tensor, by the reference
// interpreter.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace tessera {

struct VerifyOptions {
  int64_t steps = 20;
  /// Steps of which every tensor is compared; the losses are compared in all. 0: all steps.
  int64_t tensor_steps = 0;
  /// Called after each step with its number, for progress.
  std::function<void(int64_t)> on_step = {};
  /// Rules of the plan under test; the serial runs always take the catalogue's.
  RuleLookup rules = catalogue_rule;
  /// false: the plan runs although the check of placements would refuse it, to see that the numbers
  /// show it too.
  bool check_placements = true;
};

/// The first tensor, in program order, that is off.
struct Difference {
  int64_t step = 0;
  std::string op;
  std::string value;
  std::string placement;  // under the plan
  int64_t index = 0;      // in the whole tensor
  double distributed = 0;
  double serial = 0;
  double tolerance = 0;
};

struct VerifyReport {
  bool ok = false;
  double max_error = 0;  // largest error, as a fraction of its tolerance
  std::optional<Difference> first_difference;
  std::vector<double> losses;         // of the plan
  std::vector<double> serial_losses;  // of the serial plan, its own trajectory
  std::vector<double> loss_tolerances;
  int64_t tensors = 0;        // compared in a step
  int64_t exact_tensors = 0;  // of these, by bits: masks, lookups, whatever is not rounded
};

/// Runs both and compares.
///
///   tensors     each step starts the reference interpreter from the plan's own state, so that
///   errors
///               do not accumulate; the tolerance of a tensor is four
///               times the sum of what its own op may be off (from dtype, number of terms and sums
///               of absolute terms) and the largest change that it shows when every op of the
///               interpreter is perturbed by what it may be off
///   losses      two trajectories; their tolerance is four times the change that a serial run shows
///   when its state is perturbed by those
///               tolerances
///   initial     variables of both are compared by bits before the first step
VerifyReport verify_plan(const RunConfig& config, const Plan& plan,
                         std::shared_ptr<const RunData> data, const VerifyOptions& options = {});

}  // namespace tessera
