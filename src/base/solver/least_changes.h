// Single changes of an assignment: the next best strategy of each node.
#pragma once

#include <cstdint>
#include <vector>

#include "base/solver/problem.h"

namespace tessera::solver {

/// Another strategy of one node.
struct Change {
  int32_t node = 0;
  int32_t strategy = 0;

  bool operator==(const Change&) const = default;
};

/// For each node the change of it after which the assignment costs least, in ascending order of
/// this cost; of equal costs the first node. A node without another strategy that uses no forbidden
/// entry has none. The limit of usages is not looked at.
///
///   requires  a strategy of each node; the assignment uses no forbidden entry
///   time      O(nodes + entries of the edges' tables in one row and one column each)
std::vector<Change> least_changes(const Problem& problem, const Assignment& assignment);

}  // namespace tessera::solver
