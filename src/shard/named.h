// The values and ops of a graph whose names match a pattern.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace tessera {

/// Ascending; `pattern` is one of matches() in base/text.h.
///   time  O(1) for a name without stars and braces, else O(values) or O(ops)
std::vector<ValueId> values_named(const Graph& graph, const std::string& pattern);
std::vector<OpId> ops_named(const Graph& graph, const std::string& pattern);

}  // namespace tessera
