// The operands on which the ops of a plan decided: what they compared, what they put in order. The
// reference decides on the same operands, because two runs may decide differently where an operand
// is within rounding of its threshold, and both are right.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/index.h"
#include "compiler/lower/lower.h"
#include "ir/ops/interpreter.h"
#include "training/verify/capture.h"

namespace tessera {

/// The registers from which the ops of a plan decide (Operator::decision), and what ranks filled
/// them with in a step.
class DecisionOperands {
 public:
  /// Both outlive it.
  ///   serial    the graph that the reference interprets
  ///   compiled  the program of the same network under a plan
  DecisionOperands(const Graph& serial, const Compiled& compiled);

  /// Each once.
  const std::vector<RegisterIndex>& registers() const { return registers_; }

  /// Forgets the operands of the step before.
  void clear();
  /// Adds what the ranks filled some of the registers with.
  ///   requires  the capture has the parts of all ranks
  void add(std::span<const RegisterIndex> registers, const Capture& capture);
  /// Leaves out the operands that the plan does not have as one tensor: a part is nowhere, or ranks
  /// computed an element twice and rounded it differently. To be called after the last register.
  void drop_incomplete();
  /// Leaves out `value` and all operands after it in the order of the serial program.
  void drop_from(const std::string& value);

  /// The operands by name in the serial graph.
  const ReferenceValues& values() const { return values_; }
  /// Their names in the order of the serial program.
  std::vector<std::string> names() const;
  /// The results that ops of the plan compute from values() alone. A right plan has exactly what
  /// their definitions give for these operands.
  std::set<std::string> decided_results() const;

 private:
  using OperandIndex = Index<struct DecisionOperandTag>;
  struct Operand {
    std::string name;           // in the serial graph
    std::vector<bool> covered;  // by element: has a register given it?
    bool is_one_tensor = true;
  };
  /// The steps that compute an op of the plan, by name of the op.
  using StepsOfOps = std::map<std::string, std::vector<KernelStep>, std::less<>>;

  static StepsOfOps steps_of_ops(const TaskGraph& tasks);
  void add_op(const Op& op, const Decision& decision, const StepsOfOps& all_steps);
  /// The op of the plan that computes what `op` does, from the same operands; nullptr if none.
  const Op* find_compiled(const Op& op, const Decision& decision) const;
  void add_register(const std::string& name, RegisterIndex reg);
  int place_of(const std::string& value) const;
  static void place(const Capture::Whole& part, const std::vector<size_t>& positions,
                    Operand& operand, ReferenceTensor& whole);

  const Graph& serial_;
  const Compiled& compiled_;
  std::vector<RegisterIndex> registers_;
  std::map<RegisterIndex, std::vector<OperandIndex>> operands_of_;
  IndexedVector<OperandIndex, Operand> operands_;
  std::map<std::string, OperandIndex> by_name_;
  std::vector<const Op*> deciding_;  // ops of the serial graph whose operands are registers
  ReferenceValues values_;
};

}  // namespace tessera
