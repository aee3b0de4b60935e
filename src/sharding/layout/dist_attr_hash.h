// Hashes of placements, for tables in memory.
#pragma once

#include "base/hash.h"
#include "sharding/layout/dist_attr.h"

namespace tessera {

/// Adds what divides the dims, and the axes on which a tensor is partial. The mesh is left out: the
/// caller adds what it compares meshes by.
///   ensures  equal placements add equal hashes: of a dim that is not divided only that matters
inline void add_placement(Hasher& hasher, const DistAttr& attr) {
  for (const DimSharding& dim : attr.dims) {
    hasher.add_each(dim.axes);
    if (dim.axes.empty()) continue;
    hasher.add(dim.unit);
    hasher.add(dim.chunks);
    hasher.add(dim.windows.size());
  }
  for (const PartialAxis& partial : attr.partial) {
    hasher.add(partial.axis);
    hasher.add(static_cast<int>(partial.reduce));
  }
}

}  // namespace tessera
