// Offload: state of the optimizer rests in a file, and each step copies it into memory around the
// update.
#pragma once

#include <set>
#include <string>

#include "compiler/lower/internal/passes/device_copies.h"
#include "compiler/lower/internal/program.h"

namespace tessera {

/// Moves variables out of the memory of their ranks. Each mesh that has some gets a second mesh:
/// the same ranks with a file as their memory, in which the variables rest. A copy brings the value
/// into the arena before its first reader, the kernels of the update write the next value over it
/// as they did in the memory of the variable, and a second copy writes that back:
///
///     w.exp_avg = copy(w.exp_avg in a file)
///     w.exp_avg.next = binary.add(w.exp_avg, ...) in place
///     w.exp_avg.next in a file = copy(w.exp_avg.next)
///
/// Copies into memory and copies back are two streams beside the kernels (stream_of in
/// task_graph/tasks/task_graph.h). The variables of a mesh have places in one window of its arena
/// (StateWindow) in the order of their first readers, which is a ring: a variable takes the bytes
/// of those that the step has used and written back before, and waits for them alone. So the window
/// decides how far ahead of the update the state is copied, and the variables that fit at first are
/// copied while the forward runs.
///
///   names     of variables: offloaded_variables() in compiler/plan/offload.h
///   window    bytes of the window of each mesh; it is as much larger as the variables need that
///             are used at the same time, and not larger than all of them
///   requires  the order of the instances is final, except for positions of exchanges; the devices
///             are set. Variables are updated in place where that is safe
///   ensures   the kernels and their order are as before, so that results have the same bits. Left
///             in memory: a variable that an exchange reads, whose next value a micro-batch writes,
///             or whose next value is not computed from it by one kernel
///   throws    UserError (78) when a mesh of accelerators has one of the variables
///   time      O(instances + variables log variables)
void offload_variables(Program& program, const std::set<std::string>& names, Bytes window);

/// Adds "NAME in a file" for the meshes that offload_variables has added.
MeshNames with_file_names(const Program& program, MeshNames names);

/// The bytes of each mesh, then the copies in their order, a line each.
std::string offload_text(const Program& program);

}  // namespace tessera
