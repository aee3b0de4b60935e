// The strategies of a node that another one of it is as good as, whatever the neighbours do.
#pragma once

#include <cstdint>
#include <vector>

#include "base/solver/internal/network.h"

namespace tessera::solver {

/// By strategy: 0 where another one that is kept never uses more memory and never costs more. Of a
/// node with large tables not all pairs are compared.
///   requires  settle_holdings() of the node
std::vector<char> undominated(const Network& network, int32_t node);

}  // namespace tessera::solver
