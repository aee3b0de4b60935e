// The lowered program before it is cut into tasks: a list of instructions over registers. Each is
// on one mesh and the same for every rank of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"
#include "schedule/passes.h"
#include "tasks/task_graph.h"

namespace tessera {

using StageIndex = Index<struct StageTag>;  // of a pipeline: in Program::mesh_of_stage

/// One kernel, one exchange, or one copy between a device and its host.
struct Instruction {
  bool is_exchange = false;
  bool is_copy = false;  // of all of `source` into `target`
  Role role = Role::kForward;
  int micro_batch = -1;  // -1: once a step
  StageIndex stage{0};   // the part of a pipeline that it belongs to; an exchange is of the stage
                         // that receives
  MeshIndex mesh{0};     // the ranks that execute it
  std::optional<PassKind> pass = std::nullopt;  // of a pipeline; set when it is ordered
  KernelStep step;                              // of a kernel
  Exchange exchange;                            // of an exchange: pulls from `source` into `target`
  int issue_after = -1;  // of an exchange: the instruction behind which it may begin, ahead of its
                         // turn; -1: at its turn
  RegisterIndex source;
  RegisterIndex target;
  std::string reason;

  std::vector<RegisterIndex> reads() const;
  std::vector<RegisterIndex> writes() const;
};

struct Program {
  IndexedVector<MeshIndex, MeshPtr> meshes;  // each once, but for other devices
  IndexedVector<StageIndex, MeshIndex>
      mesh_of_stage;  // stages on equal meshes of equal devices have the same
  IndexedVector<MeshIndex, DeviceKind> devices =
      {};  // from lower/passes/device_copies.h on; empty before
  IndexedVector<RegisterIndex, Register> registers;
  std::vector<Instruction> instructions;
  std::vector<TaskVariable> variables;
  std::vector<RegisterIndex> next;  // per variable: the register of its next value, or none
  std::vector<TaskInput> inputs;
  std::vector<std::pair<std::string, RegisterIndex>> results;
  std::shared_ptr<const KernelSet> kernels;  // of the graph's own operators
};

/// By input: the first instruction that reads it; that of a part that nobody reads: 0.
std::vector<int> first_readers_of_inputs(const Program& program);

/// The text form of a graph (graph/graph.h) with kernels for operators, placements in the types,
/// and exchanges with their reasons:
///
///     y = dot_general(x, w): f32[4@dp, 2]
///     g [*] = all-reduce(g): f32[6] @backward <- 'g' is [*] {partial sum: dp}, op 'w.next' needs
///     [*] w.next = binary.sub(w, g [*]): f32[6] @optimizer in place of w
std::string to_text(const Program& program);

}  // namespace tessera
