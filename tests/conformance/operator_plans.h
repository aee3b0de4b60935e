// Small programs around one operator, and the plans under which they run. Test code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/ops/testing/operator_check.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::conformance {

/// The kinds of plan under which every operator runs.
enum class PlanKind {
  kHalves,         // each factor of the sharding rule in two parts
  kThirds,         // in three, which are uneven for most extents
  kEmptyParts,     // in eight, of which most are empty
  kWeightedParts,  // in two, of which the first is twice the second
  kTwoAxes,        // two factors, or one twice, over 2 x 2 ranks
  kMicroBatches,   // the rows of the operands in micro-batches
  kStages,         // the op, its backward and its readers on two stages of a pipeline
  kRewritten,      // all passes over the graph, among them recompute of everything
  kDividedState,   // variables that lie divided, as of ZeRO, beside an op that reads them whole
  kNarrow,         // operands in bf16
  kFakeDevice,     // on a device with a memory of its own
  kTwoProcesses,   // the ranks divided between two processes
};
std::string_view to_text(PlanKind kind);  // "halves", "thirds", "empty parts", ...
const std::vector<PlanKind>& plan_kinds();

/// Case files of a kind of plan: `fuzz::run_case` compares each register with the reference.
struct PlannedOperator {
  std::string division;  // "m in 2"; "" when nothing is divided
  fuzz::FuzzCase given;
  bool in_two_processes = false;
};

/// The programs with this op under one kind of plan. None: the kind does not apply, since the rule
/// divides no factor, the op has no operand of the batch or no variables, or no type of 16 bits.
///
///     w0 (variable) -> w0.made ----\                                   each differentiable operand
///     x1 (input)  ------------------- op -> op.read -> mean -> loss    is a trained variable
std::vector<PlannedOperator> planned_operators(const operator_testing::OperatorCase& given,
                                               PlanKind kind);

/// Cases of the operator, at most `count`, of which the first and the last are among all.
///   ensures  at least one: of an operator that only gradients use, a case of the forward operator
std::vector<operator_testing::OperatorCase> cases_of(std::string_view kind, size_t count);

}  // namespace tessera::conformance
