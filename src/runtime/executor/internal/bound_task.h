// A task as one rank runs it: its actor, bound kernels and planned copies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/tensor/reduce_op.h"
#include "kernels/kernel.h"
#include "runtime/comm/box_combine.h"
#include "runtime/exchange/exchange_backend.h"
#include "runtime/executor/internal/region.h"
#include "task_graph/actors/actor.h"
#include "task_graph/actors/task_actors.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// One kernel of a compute task, or a While or If, which is alone in its task.
struct BoundStep {
  KernelStep source;
  BoundKernel kernel;  // empty when all results are empty on this rank, and for a While or an If
  std::vector<RegisterIndex> input_registers;  // those of `source`
  std::vector<RegisterIndex> output_registers;
  std::vector<const std::byte*> inputs;  // their addresses for the current act
  std::vector<std::byte*> outputs;
  std::vector<Region*> regions;              // those of a While or an If
  std::vector<CarriedValue> carried_values;  // those of a While

  KernelBuffers buffers(std::byte* workspace) const { return {inputs, outputs, workspace}; }
};

/// A box that is copied between a register and a tensor of the caller, in a feed or a fetch.
struct BoundTransfer {
  RegisterIndex reg;
  size_t tensor = 0;  // position among the inputs or the results of the step
  BoxCombine copy;
};

/// What a rank does in an exchange.
struct BoundExchange {
  /// Where an input port receives from.
  struct Port {
    size_t part = 0;
    int sender = 0;  // rank index
  };
  /// A part that begins a Partial, where this rank holds the identity of the reduction.
  struct Identity {
    size_t part = 0;
    ReduceOp reduce = ReduceOp::kSum;
  };
  std::vector<Port> ports;
  BoxCombination combination;
  std::vector<Identity> identities = {};
  std::unique_ptr<ExchangeBackend> backend = nullptr;  // nullptr: all senders are in this process
};

struct BoundTask {
  const Task task;
  const TaskId id;
  const TaskStream stream;
  Actor actor;
  std::vector<AntiDependence> overwrites;
  std::vector<BoundStep> steps = {};          // of a compute task
  std::vector<BoundTransfer> transfers = {};  // of a feed or a fetch
  BoundExchange exchange = {};                // of an exchange
};

}  // namespace tessera
