// Hashes of registers, for tables in memory.
#pragma once

#include "sharding/layout/dist_attr_hash.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// Adds the type of a register, its placement and its mesh, whatever its name.
///   reg  a Register or a RegisterForm
template <class AnyRegister>
void add_placed_type(Hasher& hasher, const AnyRegister& reg) {
  hasher.add(reg.mesh);
  hasher.add(static_cast<int>(reg.type->dtype));
  hasher.add_each(reg.type->shape);
  add_placement(hasher, reg.attr);
}

}  // namespace tessera
