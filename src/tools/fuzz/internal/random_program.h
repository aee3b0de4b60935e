// Random serial programs: forward, often a loss with its gradient and an update of the variables.
// Private to this module.
#pragma once

#include <map>
#include <string>

#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {

struct RandomProgram {
  Graph graph;
  std::map<std::string, Fill> fills;
};

/// A verified graph with ops of all operators that the mode allows. Values are used repeatedly,
/// dims have extents of 1 to 7, and some variables have a next value.
RandomProgram random_program(uint64_t seed, bool exact, int64_t micro_batches);

/// The axes of each dim as text: `P("x", None, ("y","z"))`.
std::string spec_text(const Mesh& mesh, const std::vector<std::vector<int>>& dim_axes);

/// The meshes of a case: mostly one; otherwise two or three stages, with ranks of their own or
/// shared.
Meshes random_meshes(uint64_t seed);

/// Legal marks on inputs, variables, intermediate values and ops; many or few. With several meshes,
/// the first marks assign ops to them. With micro-batches, few marks conflict with them.
std::vector<Mark> random_marks(uint64_t seed, const Graph& graph, const Meshes& meshes,
                               int64_t micro_batches);

}  // namespace tessera::fuzz
