// Binds the tasks of a program for one rank: actors, kernels for its coordinate, copy plans.
#pragma once

#include <map>
#include <vector>

#include "runtime/exchange/remote_receives.h"
#include "runtime/executor/internal/bound_task.h"
#include "runtime/memory/program_context.h"
#include "runtime/memory/rank_memory.h"

namespace tessera {

/// The regions of each While and If, as one rank runs them.
using RankRegions = std::map<const Control*, std::vector<Region*>>;

/// requires  all ranks of this process have found their recv regions
class TaskBinder {
 public:
  TaskBinder(const ProgramContext& program, int rank_index, const RankMemory& memory,
             const RankRegions& regions)
      : program_(program), rank_index_(rank_index), memory_(memory), regions_(regions) {}

  /// A task of a mesh that the rank does not belong to gets only its actor.
  BoundTask bind(TaskId id) const;

 private:
  BoundStep bind_step(const KernelStep& step) const;
  BoundKernel bind_kernel(const KernelStep& step) const;
  std::vector<CarriedValue> plan_carried_values(const KernelStep& step) const;
  std::vector<BoundTransfer> plan_feed(const Task& task) const;
  std::vector<BoundTransfer> plan_fetch(const Task& task) const;
  BoundExchange bind_exchange(TaskId id) const;
  void plan_local_receives(TaskId id, BoundExchange& exchange) const;
  void add_lanes(TaskId id, const BoundExchange& exchange, RemoteReceives& receives) const;
  void plan_remote_receives(TaskId id, BoundExchange& exchange) const;
  void plan_receive(const Task& task, const RemoteRecvRegion& travels, BoundExchange& exchange,
                    RemoteReceives& receives, size_t& source) const;
  std::vector<TensorType> types(const RegisterList& registers) const;
  const Coordinate& coordinate(const Register& reg) const { return memory_.coordinate(reg.mesh); }

  const ProgramContext& program_;
  const int rank_index_;
  const RankMemory& memory_;
  const RankRegions& regions_;
};

}  // namespace tessera
