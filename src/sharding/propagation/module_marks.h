// Modules as marks see them: the ops below a name, and the values that enter and leave them.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tessera {

/// The forward ops whose names begin with the name of the module and a point.
struct Module {
  std::string name;
  std::vector<OpId> ops;
  /// Values from outside that they read, without variables, in the order of their first use.
  std::vector<ValueId> inputs;
  /// Values that they make and that other forward ops, or the results of the program, use.
  std::vector<ValueId> outputs;
};

/// The modules whose names match the pattern, in program order. Of nested ones the outermost.
///   time  O(ops)
std::vector<Module> modules_of(const Graph& graph, const std::string& pattern);

/// The ops of all roles in modules whose names match, ascending.
///   time  O(ops)
std::vector<OpId> ops_in_modules(const Graph& graph, const std::string& pattern);

}  // namespace tessera
