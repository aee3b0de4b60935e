// Placements that divide parameters or the state of the optimizer over the axis of data
// parallelism, beside their division by other axes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/dims.h"

namespace tessera {

/// The axes of each dim, outermost first.
using AxesOfDims = std::vector<std::vector<std::string>>;

/// An axis and its size.
struct SizedAxis {
  std::string_view name;
  int64_t size = 1;
};

/// Divides one more dim by `axis`, so that the largest part is as small as it can be. Of equal
/// ones a dim that no other axis divides comes first, then the first dim: its parts are rows.
///
///   shape    of the tensor
///   given    as it is divided now; by dim
///   divided  by dim the number of parts that `given` makes of it
///   ensures  unchanged where every dim has fewer elements in a part than the axis has positions:
///            such tensors are small
AxesOfDims divided_further(const Shape& shape, AxesOfDims given,
                           const std::vector<int64_t>& divided, const SizedAxis& axis);

}  // namespace tessera
