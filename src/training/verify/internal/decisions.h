// The operands on which the ops of a plan decided: what they compared, what they put in order. The
// reference decides on the same operands, because two runs may decide differently where an operand
// is within rounding of its threshold, and both are right.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "ir/ops/interpreter.h"
#include "training/verify/capture.h"

namespace tessera {

/// The registers from which the ops of a plan decide (Operator::decision), and what ranks filled
/// them with in a step. Operands are read one after another, in the order of the serial program.
class DecisionOperands {
 public:
  /// Both outlive it.
  ///   serial    the graph that the reference interprets
  ///   compiled  the program of the same network under a plan
  DecisionOperands(const Graph& serial, const Compiled& compiled);

  /// The serial values on which ops decide.
  std::vector<ValueId> operands() const;
  /// From which an operand is read; none for other values.
  std::span<const RegisterIndex> registers(ValueId operand) const;

  /// Begins a step: no operand is known.
  void clear();
  /// Reads an operand. It stays unknown where the plan does not have it as one tensor: a part is
  /// nowhere, or ranks computed an element twice and rounded it differently; and after drop_from().
  ///   requires  the capture has the parts of all ranks
  void read(ValueId operand, const Capture& capture);
  /// Forgets an operand and all after it in the order of the serial program, for this step.
  void drop_from(ValueId operand);
  /// Frees an operand that no later op decides on.
  void release_after(OpId op);

  /// The known operands, by name in the serial graph.
  const ReferenceValues& values() const { return values_; }
  /// Does an op of the plan compute this result from known operands alone? Then a right plan has
  /// exactly what its definition gives for these operands.
  bool decides(const Op& op, ValueId result) const;

 private:
  struct Operand {
    std::vector<RegisterIndex> registers;
    int last_reader = -1;  // the last op of the serial graph that decides on it
  };
  /// The steps that compute an op of the plan, by name of the op.
  using StepsOfOps = std::map<std::string, std::vector<KernelStep>, std::less<>>;

  static StepsOfOps steps_of_ops(const TaskGraph& tasks);
  void add_op(const Op& op, const Decision& decision, const StepsOfOps& all_steps);
  /// The op of the plan that computes what `op` does, from the same operands; nullptr if none.
  const Op* find_compiled(const Op& op, const Decision& decision) const;
  void add_register(ValueId operand, RegisterIndex reg);
  int position(ValueId value) const;

  const Graph& serial_;
  const Compiled& compiled_;
  std::map<ValueId, Operand> operands_;
  std::set<const Op*> deciding_;  // ops of the serial graph whose operands are registers
  std::optional<int> dropped_;    // the position from which operands stay unknown
  ReferenceValues values_;
};

}  // namespace tessera
