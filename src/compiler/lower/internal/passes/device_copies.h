// Copies between the memory of a device and that of its host.
#pragma once

#include <vector>

#include "compiler/lower/internal/program.h"
#include "sharding/layout/device_kind.h"

namespace tessera {

/// Gives each mesh of devices a second mesh: the same ranks with the memory of their hosts. Inputs
/// are fed there and results are fetched from there, and so is everything that ranks exchange,
/// since no device reads the memory of another one: a copy stands between each such register and
/// the one in the memory of the device. One exchange between two devices becomes copy, exchange,
/// copy.
///
///   devices   by mesh of `program`
///   requires  the order of the instances is final
///   ensures   a copy for several micro-batches of a rolled program is one instruction; what a step
///             has once is copied once, before its first reader; the operands and results of a
///             kernel on a device are in the device's memory, all others in that of the host;
///             nothing changes where every mesh is of hosts
///   throws    UserError (78) when a While or an If is on a device: the thread of its rank runs its
///             regions
void add_device_copies(Program& program, const IndexedVector<MeshIndex, DeviceKind>& devices);

/// Names by mesh of `program`: those of the meshes, then "NAME on host".
using MeshNames = IndexedVector<MeshIndex, std::string>;
MeshNames with_host_names(const Program& program, MeshNames names);

}  // namespace tessera
