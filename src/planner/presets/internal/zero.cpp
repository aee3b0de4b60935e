#include "planner/presets/internal/zero.h"

#include <optional>
#include <tuple>

namespace tessera {

AxesOfDims divided_further(const Shape& shape, AxesOfDims given,
                           const std::vector<int64_t>& divided, const SizedAxis& axis) {
  using Key = std::tuple<double, bool, int>;  // the largest part, in parts of the whole; is divided
  std::optional<Key> best;
  for (int d = 0; d < shape.size(); ++d) {
    const int64_t part = (shape[d] + divided[d] - 1) / divided[d];
    if (part < axis.size) continue;
    const int64_t smaller = (part + axis.size - 1) / axis.size;
    const Key key{static_cast<double>(smaller) / static_cast<double>(part), divided[d] > 1, d};
    if (!best || key < *best) best = key;
  }
  if (best) given[std::get<int>(*best)].emplace_back(axis.name);
  return given;
}

}  // namespace tessera
