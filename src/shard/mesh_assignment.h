// Which mesh each op and each value is on: the stages of a pipeline, before any dim is divided.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "shard/layout/device_kind.h"
#include "shard/layout/mesh.h"

namespace tessera {

struct Mark;

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
  /// The home of each value: the mesh of its producer; of a variable, where it is kept; of an
  /// input, where it is used first.
  std::vector<int> values;
};

/// Spreads the marked meshes over the program.
///
///   marks      an op mark with a mesh puts the op there; a tensor mark with a mesh puts the tensor
///   there, and the ops that use it unless
///              they are marked themselves
///   forward    an op without mesh takes the larger of the meshes of its marked operands when it
///   includes the others, else the nearest
///              known mesh before it in program order, or after it when there is none before
///   backward   an op takes the mesh of the op that it was derived from, a sum of gradients that of
///   its addends when one mesh has them all;
///              an optimizer op that of its parameter; what belongs to no single one (the clip's
///              norm) that of the op before it
///   variables  live where their first user is unless marked; a variable and its next value live
///   together throws     UserError (78): a mark names a mesh that there is not (lists them)
MeshAssignment assign_meshes(const Graph& graph, const Meshes& meshes,
                             const std::vector<Mark>& marks);

}  // namespace tessera
