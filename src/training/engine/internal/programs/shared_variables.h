// Programs other than the training step that use its variables: evaluation, prediction, a step in
// parts. Each is placed separately, but a variable stays where training keeps it.
#pragma once

#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/mark.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// The marks that name something in `graph`. Other programs lack what only training has, such as
/// labels and optimizer state.
std::vector<Mark> marks_for(const Graph& graph, const std::vector<Mark>& marks);

/// The mark that keeps the tensor `name` at the placement `attr` on the mesh `mesh`.
///   requires  attr is not Partial
Mark keep_at(const std::string& name, const DistAttr& attr, const std::string& mesh);

/// The name of the canonical mesh of a value.
const std::string& owner_mesh(const ShardedGraph& sharded, ValueId value);

/// `marks` with the marks on variables replaced by the placements that training gave to the
/// variables of `graph`. Variables that training does not have are left to the caller.
///   main  the program that keeps the variables
std::vector<Mark> with_variables_of(const PlacedGraph& main, const Graph& graph,
                                    std::vector<Mark> marks);

/// `marks`, and those that put the forward ops of `graph` on the stages that training gave to the
/// ops of their names. Otherwise an op that reads a variable of two stages, such as a tied
/// embedding, would follow the variable. Ops that training does not have, as those of metrics, are
/// on the last of the stages that make their operands; without such operands, on the first one that
/// reads them.
std::vector<Mark> with_stages_of(const PlacedGraph& main, const Graph& graph,
                                 std::vector<Mark> marks);

}  // namespace tessera
