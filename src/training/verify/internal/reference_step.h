// One step of the reference interpreter: what each value of the serial program should be, and how
// far a right plan may be from it. It knows no ranks and no registers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops/interpreter.h"
#include "training/verify/internal/decisions.h"

namespace tessera {

/// The rounding errors of a run are far below their bounds; the perturbed interpreter uses the
/// bounds, with random signs. Four times its effect allows for less favourable signs.
inline constexpr double kSafety = 4;

/// A run is as far from exact results as one rounding to f16 or bf16 may bring it, while sums of
/// many terms in f32 stay far below their bound. So the effect of one perturbation on a single
/// number says too little.
inline constexpr int kNarrowPerturbations = 4;

/// The perturbed interpretations of a step, with values of f16 or bf16 kNarrowPerturbations of
/// them, and the state that they began with. They do not depend on a plan: verifications of several
/// plans of one graph may share them, one after another.
struct PerturbedRuns {
  int64_t step = -1;  // none has run
  ReferenceValues state;
  ReferenceValues first;
  std::vector<ReferenceValues> more;
  std::map<std::string, double> own_tolerances;  // by value: what its own op may do to it

  bool are_of(const ReferenceValues& given, int64_t given_step) const;
};

class ReferenceStep {
 public:
  /// `graph` outlives it. The perturbed runs are of this graph; null: it has its own.
  explicit ReferenceStep(const Graph& graph, std::shared_ptr<PerturbedRuns> perturbed = nullptr)
      : graph_(graph),
        runs_(perturbed ? std::move(perturbed) : std::make_shared<PerturbedRuns>()) {}

  /// Interprets a step from one state, plain and perturbed; with values of f16 or bf16 perturbed in
  /// kNarrowPerturbations ways. The plain run decides on the
  /// operands of the plan; where one of them is wrong, it decides by itself from there on. The
  /// perturbed run decides by itself, because the serial run, with which losses are compared, does
  /// so too. Perturbed runs from the same state are not repeated.
  ///   decisions  operands that are wrong are dropped
  ///   on_op      called after each op of the first perturbed run, when set
  ///   throws     UserError when values leave the range of f32
  void run(const ReferenceValues& state, int64_t step, DecisionOperands& decisions,
           const std::function<void(const Op&)>& on_op);

  /// Of the last step.
  const ReferenceTensor& expected(const std::string& value) const { return expected_.at(value); }
  const ReferenceTensor& perturbed(const std::string& value) const {
    return runs_->first.at(value);
  }
  /// The largest error of an element of a right plan.
  double tolerance(const std::string& value) const { return kSafety * changes_.at(value); }

 private:
  void perturb(const ReferenceValues& state, int64_t step,
               const std::function<void(const Op&)>& on_op);
  void perturb_more(const ReferenceValues& state, int64_t step);
  void find_changes(const DecisionOperands& decisions);
  std::optional<std::string> first_wrong_operand(const DecisionOperands& decisions) const;
  void expect_range(int64_t step) const;
  std::vector<ReferenceValues::const_iterator> expected_values() const;

  const Graph& graph_;
  ReferenceValues expected_;
  std::shared_ptr<PerturbedRuns> runs_;
  std::map<std::string, double> changes_;  // that, and what the perturbation of all ops did to it
};

}  // namespace tessera
