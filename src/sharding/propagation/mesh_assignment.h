// The mesh of each op and each value: the stages of a pipeline, before any dim is divided.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/layout/device_kind.h"
#include "sharding/layout/mesh.h"
#include "sharding/propagation/mark.h"

namespace tessera {

/// A mesh with a name. It is a stage, or another view of the ranks of a stage: ops on it run in the
/// passes of that stage.
struct NamedMesh {
  std::string name;
  MeshPtr mesh;
  DeviceKind device = DeviceKind::kHost;  // the device of each of its ranks
  /// What its ranks need of a cluster: "cpu", "gpu", "npu", the name of a type of device, or "" for
  /// any. It decides nothing of the program.
  std::string hardware = {};
  /// The name of the stage of which it is a view, which has the same ranks; "": it is a stage.
  /// Views come after all stages.
  std::string view_of = {};
};
using Meshes = std::vector<NamedMesh>;

/// The stage of a mesh: its own index, or that of the mesh of which it is a view.
int stage_of(const Meshes& meshes, int mesh);
/// The number of meshes that are no views.
int stage_count(const Meshes& meshes);

/// The usual case: one mesh called "all".
Meshes one_mesh(MeshPtr mesh);

struct MeshAssignment {
  std::vector<int> ops;  // by op: index in the meshes
  /// The canonical mesh of each value: the mesh of its producer; for a variable, the mesh that
  /// stores it; for an input, the mesh that uses it first.
  std::vector<int> values;
};

/// Assigns every op and value to a mesh, from the marks that name meshes.
///
///   marks      an op mark with a mesh puts the op there, and a module mark all ops of the module;
///              a tensor mark with a mesh puts the tensor there, with the op that makes it, and
///              the ops that use it unless they are marked themselves. A pattern that matches
///              names of the forward (or inputs and variables) says nothing of the backward and
///              the optimizer, which follow; one that matches only names of those places them
///   forward    an op without mesh takes the larger of the meshes of its marked operands when that
///              includes the others; then that mesh of its operands that has all ranks of the
///              others and more. Otherwise it takes the nearest known mesh before it in program
///              order, or after it when there is none before; of a view the stage, so that a view
///              has what is marked and what is derived from that
///   backward   an op takes the mesh of the op that it was derived from; a sum of gradients takes
///              that of its operands when one mesh has them all; an optimizer op takes that of its
///              parameter; an op that belongs to no single parameter (the norm of a clip) takes
///              that of the op before it
///   variables  are on the mesh of their first user unless marked; a variable and its next value
///              are on one mesh
///   throws     UserError (78) when a mark names a mesh that does not exist (it lists the meshes),
///              or puts a tensor elsewhere than another mark the op that makes it
MeshAssignment assign_meshes(const Graph& graph, const Meshes& meshes,
                             const std::vector<Mark>& marks);

}  // namespace tessera
