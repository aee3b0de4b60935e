// Compares a run under a plan with the serial program, tensor by tensor. The reference interpreter
// runs the serial program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "training/engine/engine.h"

namespace tessera {

/// What a verification takes, estimated before its first step.
struct VerifyNeed {
  Bytes ranks{0};      // arenas and variables of all ranks
  Bytes captured{0};   // what one execution of a step captures
  Bytes states{0};     // variables of the plan before a step, and of the serial trajectories
  Bytes reference{0};  // all interpretations of the reference
  Bytes serial{0};     // a step of the serial program with the states, before the reference
  int executions = 1;  // of each step under the plan: one for each window of captured tensors
  Seconds seconds{0};  // roughly
  /// At a time.
  Bytes all() const;
};
/// "4.1 GiB of ranks, 1 GiB captured, ..."
std::string to_text(const VerifyNeed& need);

struct VerifyOptions {
  int64_t steps = 3;
  /// The number of steps of which every tensor is compared; losses are compared in all steps. 0:
  /// all steps.
  int64_t tensor_steps = 0;
  /// Called after each op of the reference interpreter and each step with the steps done so far, as
  /// estimated by the work of ops: 1.5 is half of the second step.
  std::function<void(double)> on_progress = {};
  /// The rules of the plan under test. The serial runs always use those of the catalogue.
  RuleLookup rules = catalogue_rule;
  /// false: the plan runs although the check of placements would refuse it, to show that the
  /// numbers reveal the fault too.
  bool check_placements = true;
  /// Of the plan under test, see CompileOptions.
  bool verify_passes = false;
  /// Of the plan under test: the connection to the other processes that run its ranks.
  RuntimeOptions runtime = {};
  /// The bytes of tensors that the leader has of all processes at a time; at least one tensor.
  Bytes gathered{32 << 20};
  /// The bytes of tensors of all ranks that one execution of a step captures; at least those of
  /// one op. A step with more is executed several times. 0: a part of what the rest takes.
  Bytes captured{0};
  /// Called in the leader before the first step.
  std::function<void(const VerifyNeed&)> on_need = {};
  /// Options of a smaller case, for the message when memory is short.
  std::string smaller_case = {};
  /// Called for every register before it is captured, as Observer says. A test plants faults here.
  Observer before_capture = {};
};

/// The first tensor, in program order, that differs by more than its tolerance.
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

/// Processes other than the leader have only `ok`, `losses` and `notes`.
struct VerifyReport {
  bool ok = false;
  double max_error = 0;  // the largest error, as a fraction of its tolerance
  std::optional<Difference> first_difference;
  std::vector<double> losses;         // under the plan
  std::vector<double> serial_losses;  // of the serial plan, along its own trajectory
  std::vector<double> loss_tolerances;
  int64_t tensors = 0;  // number of tensors that are compared in a step
  // of these, compared by bits: masks, lookups and others without rounding
  int64_t exact_tensors = 0;
  /// Values of the serial program that no rank computes, because the passes over the serial graph
  /// removed them. The values that replace them are compared.
  int64_t removed_values = 0;
  std::vector<ShardingNote> notes;  // of the propagation of the plan
};

/// Runs both and compares. With several processes all call it; each runs its ranks of the plan. The
/// leader runs the serial programs, and compares what it gathers.
///
///   memory   VerifyNeed. The reference, its perturbed companions and the run of the plan advance
///            together, and a value is freed after its last reader and its comparison. A step that
///            fills more than options.captured is executed again, from the same state, for each
///            window of its tensors
///   throws   UserError (4) when the machine has less memory
///   serial   the graph before the passes that rewrite it; the plan runs the graph after them
///   tensors  each step starts the reference interpreter from the plan's own state, so that errors
///            do not accumulate. The tolerance of a tensor is four times a sum of two terms: the
///            error that its own op may have (from dtype, number of terms and sums of absolute
///            terms), and the largest change of the tensor when every op of the interpreter is
///            perturbed by the error that it may have
///   choices  of an op that decides (Operator::decision) the interpreter takes what follows from
///            the operands of the plan, and the plan must have exactly that
///   losses   there are two trajectories; the tolerance is four times the change of a serial run
///            whose state is perturbed by those tolerances
///   initial  variables of both are compared by bits before the first step
VerifyReport verify_plan(const Network& network, const TrainingSettings& settings, const Plan& plan,
                         std::shared_ptr<const RunData> data, const VerifyOptions& options = {});
VerifyReport verify_plan(const RunConfig& config, const Plan& plan,
                         std::shared_ptr<const RunData> data, const VerifyOptions& options = {});

}  // namespace tessera
