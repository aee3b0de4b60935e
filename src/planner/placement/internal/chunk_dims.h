// Dims that are divided in chunks, because ops read or make equal pieces of them, such as q, k and
// v of one product.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/propagation/rules.h"

namespace tessera {

struct ChunkDims {
  /// By op and factor, and by value and dim: the numbers of chunks, without 1.
  std::vector<std::vector<std::set<int64_t>>> of_op, of_value;
};

/// Follows the dims of which ops take pieces (slices) or that they put together (concatenations)
/// through all ops that have them plainly, and from variables to their next values.
///
///   leaves  chunks of dims that are merged with others; dims with units or windows
///   time    O(operands x dims), for each number of chunks that there is
ChunkDims chunk_dims(const Graph& graph, const OpRules& rules);

}  // namespace tessera
