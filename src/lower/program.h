// The lowered program before it is cut into tasks: a list of instructions over registers, the same for every process of the mesh.
#pragma once

#include <string>
#include <vector>

#include "tasks/task_graph.h"

namespace tessera {

/// One kernel or one exchange.
struct Instruction {
  bool is_exchange = false;
  Role role = Role::kForward;
  KernelStep step;            // of a kernel
  Exchange exchange;          // of an exchange: pulls from `source` into `target`
  RegisterIndex source = -1;
  RegisterIndex target = -1;
  std::string reason;

  std::vector<RegisterIndex> reads() const;
  std::vector<RegisterIndex> writes() const;
};

struct Program {
  MeshPtr mesh;
  std::vector<Register> registers;
  std::vector<Instruction> instructions;
  std::vector<TaskVariable> variables;
  std::vector<RegisterIndex> next;            // per variable: the register of its next value, or -1
  std::vector<TaskInput> inputs;
  std::vector<std::pair<std::string, RegisterIndex>> results;
};

/// An instruction a line, with the placements of what it reads and writes.
std::string to_text(const Program& program);

}  // namespace tessera
