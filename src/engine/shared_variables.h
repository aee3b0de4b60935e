// Programs beside the training step that work on its variables: evaluation, prediction, a step in
// parts. Each is placed anew, but a variable lies where training keeps it.
#pragma once

#include <string>
#include <vector>

#include "lower/lower.h"

namespace tessera {

/// The marks that name something in `graph`: other programs lack what only training has (labels,
/// optimizer state).
std::vector<Mark> marks_for(const Graph& graph, const std::vector<Mark>& marks);

/// The mark that keeps a tensor called `name` as `attr` says, on the mesh called `mesh`.
///   requires  attr is not Partial
Mark keep_at(const std::string& name, const DistAttr& attr, const std::string& mesh);

/// The name of the mesh on which a value is at home.
const std::string& home_of(const ShardedGraph& sharded, ValueId value);

/// `marks` without those on variables, and the placements that training gave to the variables of
/// `graph` in their stead. Variables that training does not have are left to the caller.
///   compiled  of `training`
std::vector<Mark> with_variables_of(const Graph& training, const Compiled& compiled,
                                    const Graph& graph, std::vector<Mark> marks);

}  // namespace tessera
