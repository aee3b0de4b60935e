#include "compiler/placement_check/placement_check.h"

#include "compiler/placement_check/internal/accumulation_check.h"
#include "compiler/placement_check/internal/boundary_check.h"
#include "compiler/placement_check/internal/checked_program.h"
#include "compiler/placement_check/internal/chunk_check.h"
#include "compiler/placement_check/internal/op_check.h"
#include "compiler/placement_check/internal/refuse.h"
#include "compiler/placement_check/internal/symbolic_placements.h"
#include "compiler/placement_check/internal/transfer_check.h"

namespace tessera {
namespace {

/// One traversal of a task graph in its order list: of a whole step, or of a region.
class PlacementCheck {
 public:
  PlacementCheck(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches)
      : program_(graph, tasks, micro_batches),
        placements_(program_),
        boundary_(program_, placements_),
        ops_(program_, placements_,
             [micro_batches](const Graph& region, const TaskGraph& region_tasks,
                             const RegionPlacements& placements) {
               PlacementCheck(region, region_tasks, micro_batches).check_region(placements);
             }),
        accumulations_(program_, placements_),
        chunks_(program_, placements_),
        transfers_(program_, placements_) {}

  void check_step() {
    boundary_.begin_step();
    check_tasks();
    boundary_.end_step();
  }

  void check_region(const RegionPlacements& region) {
    boundary_.begin_region(region);
    check_tasks();
    boundary_.end_region(region);
  }

 private:
  void check_tasks() {
    for (TaskId id : program_.tasks().order) {
      const Task& task = program_.tasks().tasks[id];
      if (task.kind == Task::Kind::kExchange) transfers_.check_exchange(task);
      if (task.kind == Task::Kind::kCopy) transfers_.check_copy(task);
      for (const KernelStep& step : task.steps) check_kernel(task, step);
    }
  }

  void check_kernel(const Task& task, const KernelStep& step) {
    for (RegisterIndex reg : step.inputs)
      if (placements_.at(reg).value.index < 0)
        refuse("'" + step.op + "' reads " + program_.quoted(reg) + " before anything fills it");
    switch (step.purpose) {
      case KernelPurpose::kOp: return check_op(task, step);
      case KernelPurpose::kAccumulate: return accumulations_.check(step);
      case KernelPurpose::kCopyBefore:
      case KernelPurpose::kCopyNext: return transfers_.check_copy(step);
      case KernelPurpose::kTakeChunk: return chunks_.check_take(step);
      case KernelPurpose::kJoinChunks: return chunks_.check_join(step);
    }
    throw InternalError("unknown purpose of a kernel");
  }

  void check_op(const Task& task, const KernelStep& step) {
    const OpId op = op_called(step.op);
    if (!ops_.has_operands(op, step)) ops_.refuse_operands(op, step);
    ops_.check(task, step, op);
  }

  /// Most steps compute the op after that of the step before.
  OpId op_called(const std::string& name) {
    const auto& ops = program_.graph().ops();
    const int next = last_op_.index + 1;
    if (next < std::ssize(ops) && ops[next].name == name) return last_op_ = OpId{next};
    const auto op = program_.graph().find_op(name);
    if (!op) refuse("'" + name + "' is not an op of the program");
    return last_op_ = *op;
  }

  CheckedProgram program_;
  SymbolicPlacements placements_;
  BoundaryCheck boundary_;
  OpCheck ops_;
  AccumulationCheck accumulations_;
  ChunkCheck chunks_;
  TransferCheck transfers_;
  OpId last_op_;
};

}  // namespace

void check_placements(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches) {
  PlacementCheck(graph, tasks, micro_batches).check_step();
}

}  // namespace tessera
