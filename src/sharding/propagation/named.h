// The values and ops of a graph whose names match a pattern, or that a mark is about.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/propagation/mark.h"

namespace tessera {

/// Is the pattern one name, without stars and braces?
bool is_one_name(const std::string& pattern);

/// Ascending; `pattern` is one of matches() in base/text/text.h.
///   time  O(choices) of a pattern without stars, else O(values) or O(ops)
std::vector<ValueId> values_named(const Graph& graph, const std::string& pattern);
std::vector<OpId> ops_named(const Graph& graph, const std::string& pattern);

/// The ops that a mark on ops or on modules is about; none for a mark on tensors.
std::vector<OpId> ops_named_by(const Graph& graph, const Mark& mark);

}  // namespace tessera
