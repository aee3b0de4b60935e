// Which mesh each op and each value is on: the stages of a pipeline, before any dim is divided.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "shard/layout/device_kind.h"
#include "shard/layout/mesh.h"
#include "shard/mark.h"

namespace tessera {

/// A mesh with a name: a stage.
struct NamedMesh {
  std::string name;
  MeshPtr mesh;
  DeviceKind device = DeviceKind::kHost;  // what each of its ranks computes on
};
using Meshes = std::vector<NamedMesh>;

/// The axis of time: the micro-batches of a step, the first axis of every mesh while placements are
/// decided. It divides dim 0 of every input.
inline constexpr std::string_view kMicroBatchAxis = "mb";

/// One mesh called "all": the usual case.
Meshes one_mesh(MeshPtr mesh);

struct MeshAssignment {
  std::vector<int> ops;  // index in the meshes
  /// The canonical mesh of each value: that of its producer; for a variable, the mesh that stores
  /// it; for an input, the mesh that uses it first.
  std::vector<int> values;
};

/// Assigns every op and value to a mesh, from the marks that name meshes.
///
///   marks      an op mark with a mesh puts the op there; a tensor mark with a mesh puts the tensor
///              there, and the ops that use it unless they are marked themselves
///   forward    an op without mesh takes the larger of the meshes of its marked operands when that
///              includes the others, else the nearest known mesh before it in program order, or
///              after it when there is none before
///   backward   an op takes the mesh of the op that it was derived from; a sum of gradients that of
///              its operands when one mesh has them all; an optimizer op that of its parameter; an
///              op of no single one (the norm of a clip) that of the op before it
///   variables  are on the mesh of their first user unless marked; a variable and its next value
///   are
///              on one mesh
///   throws     UserError (78): a mark names a mesh that does not exist (lists them)
MeshAssignment assign_meshes(const Graph& graph, const Meshes& meshes,
                             const std::vector<Mark>& marks);

}  // namespace tessera
