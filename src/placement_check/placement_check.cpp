#include "placement_check/placement_check.h"

#include "placement_check/accumulation_check.h"
#include "placement_check/boundary_check.h"
#include "placement_check/checked_program.h"
#include "placement_check/chunk_check.h"
#include "placement_check/op_check.h"
#include "placement_check/refuse.h"
#include "placement_check/symbolic_placements.h"
#include "placement_check/transfer_check.h"

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
    const auto op = program_.graph().find_op(step.op);
    if (!op) refuse("'" + step.op + "' is not an op of the program");
    if (!ops_.has_operands(*op, step)) ops_.refuse_operands(*op, step);
    ops_.check(task, step, *op);
  }

  CheckedProgram program_;
  SymbolicPlacements placements_;
  BoundaryCheck boundary_;
  OpCheck ops_;
  AccumulationCheck accumulations_;
  ChunkCheck chunks_;
  TransferCheck transfers_;
};

}  // namespace

void check_placements(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches) {
  PlacementCheck(graph, tasks, micro_batches).check_step();
}

}  // namespace tessera
