// Random serial programs: forward, often a loss with its gradient and an update of the variables.
// Private to this module.
#pragma once

#include <map>
#include <string>

#include "fuzz/fuzz_case.h"

namespace tessera::fuzz {

struct RandomProgram {
  Graph graph;
  std::map<std::string, Fill> fills;
};

/// A verified graph of all operators that the mode allows: values are used again, dims have extents
/// of 1 to 7, some variables have a next value.
RandomProgram random_program(uint64_t seed, bool exact, int64_t micro_batches);

/// `P("x", None, ("y","z"))`: the axes of each dim.
std::string spec_text(const Mesh& mesh, const std::vector<std::vector<int>>& dim_axes);

/// What the cases run on: mostly one mesh; else two or three stages, with ranks of their own or
/// shared.
Meshes random_meshes(uint64_t seed);

/// Legal marks on inputs, variables, intermediate values and ops; many or few. Of several meshes
/// they say first what runs where. With micro-batches few marks stand in their way.
std::vector<Mark> random_marks(uint64_t seed, const Graph& graph, const Meshes& meshes,
                               int64_t micro_batches);

}  // namespace tessera::fuzz
