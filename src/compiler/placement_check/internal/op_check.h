// The check of kernels that compute an op of the serial graph: its operands, the division of its
// factors, the parts that ranks hold, and the parameters of the kernel call.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/placement_check/internal/checked_program.h"
#include "compiler/placement_check/internal/region_placements.h"
#include "compiler/placement_check/internal/symbolic_placements.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/op_sharding.h"
#include "sharding/propagation/rules.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Checks that a task graph computes a region with the given placements.
using RegionCheck = std::function<void(const Graph& region, const TaskGraph& tasks,
                                       const RegionPlacements& placements)>;

class OpCheck {
 public:
  /// requires  `program` and `placements` outlive this object
  OpCheck(const CheckedProgram& program, SymbolicPlacements& placements, RegionCheck check_region)
      : program_(program),
        placements_(placements),
        check_region_(std::move(check_region)),
        op_rules_(program.graph().ops().size()),
        divisions_(program.graph().ops().size()) {}

  /// Whether the inputs of `step` hold the operands of the op, in order.
  bool has_operands(OpId id, const KernelStep& step) const;
  /// Says which operand differs.
  ///   requires  !has_operands(id, step)
  ///   throws    InternalError
  [[noreturn]] void refuse_operands(OpId id, const KernelStep& step) const;

  /// Checks that `step` computes the op, and fills its outputs.
  ///   requires  has_operands(id, step)
  ///   throws    InternalError
  void check(const Task& task, const KernelStep& step, OpId id);

 private:
  /// An op of the serial graph with its sharding rule.
  struct OpRule {
    OpView view;
    RulePtr shared_rule;
    const ShardingRule& rule = *shared_rule;
  };
  /// How an op is divided. It follows from its operands, and is the same in most micro-batches.
  struct Division {
    KernelStep like;                // an execution that is divided so
    std::vector<DistAttr> outputs;  // as declared, without partial values
    std::vector<DistAttr> results;  // the same with the partial values that the op makes
    OpSharding sharding;
    KernelCall call;  // of an op without regions
  };
  /// One execution of an op.
  struct DividedOp {
    const Op& op;
    const OpRule& rule;
    const Division& division;
    int micro_batch;
  };

  const OpRule& rule_of(OpId id);
  DividedOp divided(const Task& task, const KernelStep& step, OpId id);
  bool is_divided_as(const KernelStep& a, const KernelStep& b) const;
  Division divide(const OpRule& rule, const KernelStep& step, const Op& op) const;
  void check_parts(const DividedOp& op, const OperandFactors& factors, RegisterIndex index) const;
  void check_part(const DividedOp& op, const DimFactor& dim, int d, RegisterIndex index) const;
  void check_micro_batch(const KernelStep& step, RegisterIndex index, int micro_batch) const;
  void check_call(const KernelStep& step, const KernelCall& expected, const Task& task) const;
  void check_parameter(const KernelStep& step, size_t i, const LocalInt& expected,
                       const Task& task) const;
  void check_regions(const DividedOp& op, const KernelStep& step) const;
  void fill_output(const DividedOp& op, int i, RegisterIndex index);

  const CheckedProgram& program_;
  SymbolicPlacements& placements_;
  RegionCheck check_region_;
  std::vector<std::optional<OpRule>> op_rules_;     // by op
  std::vector<std::optional<Division>> divisions_;  // by op: of its last execution
  RuleCache rules_{catalogue_rule};
};

}  // namespace tessera
