// The gradients of parameters, which zero divides.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tessera {

/// By the name of a parameter.
using Gradients = std::map<std::string, std::vector<ValueId>>;

/// The values of the shape of a parameter that the backward gives to the optimizer, and that are
/// sums over micro-batches. Of one that is put together once a step, of terms of several stages or
/// with a term that no rows go into, its operands that are such sums, before they are cast.
///   stages  by op
Gradients gradients_of(const Graph& graph, const std::vector<int>& stages);

}  // namespace tessera
