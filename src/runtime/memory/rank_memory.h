// The memory of one rank in one program: its arenas, the addresses of its registers, and the slots
// that the current act uses.
#pragma once

#include <optional>
#include <vector>

#include "base/tensor/tensor.h"
#include "runtime/device/device.h"
#include "runtime/memory/program_context.h"
#include "task_graph/actors/actor.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// threads  the thread of its rank; slot() any thread
class RankMemory {
 public:
  /// Borrows an arena for each mesh that the rank belongs to. A region uses `lent_arena` instead;
  /// the memory of its variables is lent before each run.
  ///   throws  std::bad_alloc
  RankMemory(const ProgramContext& program, int rank_index, std::byte* lent_arena);

  bool is_in(MeshIndex mesh) const { return coordinates_[mesh].has_value(); }
  /// The coordinate of this rank in a mesh that it belongs to.
  const Coordinate& coordinate(MeshIndex mesh) const { return *coordinates_[mesh]; }
  /// The type of this rank's part.
  TensorType local_type_of(RegisterIndex reg) const;
  Bytes bytes_of(RegisterIndex reg) const { return byte_size(local_type_of(reg)); }
  bool is_on_accelerator(MeshIndex mesh) const;
  bool is_on_host(RegisterIndex reg) const;
  Device& device(MeshIndex mesh) const;

  std::byte* slot(RegisterIndex reg, int slot) const {
    const Place& place = places_[reg];
    return place.first + slot * place.stride;
  }
  /// The slot of the current act. A register that only one task uses has only its first slot.
  std::byte* current(RegisterIndex reg) const { return places_[reg].current; }
  std::byte* workspace(const KernelStep& step) const {
    return step.workspace.is_none() ? nullptr : places_[step.workspace].first;
  }
  /// Selects the slots of the ports of `task` that `act` reads and writes.
  void select_slots(const Task& task, const Act& act);

  /// Sets the memory of variable `variable` for the following runs. For regions.
  void lend(int variable, std::byte* memory);

 private:
  /// Where a register is.
  struct Place {
    std::byte* first;    // the address of its first slot
    int64_t stride;      // bytes from one slot to the next
    std::byte* current;  // that of the slot of the current act
  };
  std::byte* address_of(const Register& reg, std::byte* lent_arena) const;
  std::byte* variable_part(const Register& reg) const;

  const ProgramContext& program_;
  const int rank_index_;
  IndexedVector<MeshIndex, std::optional<Coordinate>> coordinates_;
  IndexedVector<MeshIndex, std::byte*> arenas_;  // a region has none
  IndexedVector<RegisterIndex, Place> places_;
};

}  // namespace tessera
