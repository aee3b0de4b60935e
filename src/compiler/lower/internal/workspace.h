// The workspace that a kernel needs on the rank that needs most.
#pragma once

#include "compiler/lower/internal/program.h"

namespace tessera {

/// Bytes of workspace of `step` on `mesh`, of the regions of a While or an If too.
///
///   requires  call, inputs and outputs of `step` are set
///   time      one formula (workspace_of in kernels/bind.h); with windows one for each rank
Bytes max_workspace(const Program& program, const KernelForm& step, const Mesh& mesh);

/// A register for a workspace; `op` is the name of its op.
///   requires  bytes > 0
RegisterForm workspace_register(const std::string& op, Bytes bytes, const MeshPtr& mesh,
                                MeshIndex index);

}  // namespace tessera
