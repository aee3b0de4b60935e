#include "cluster/mapping/internal/mapping_input.h"

#include <numeric>

#include "base/error.h"

namespace tessera {

std::string_view to_text(AxisPattern pattern) {
  switch (pattern) {
    case AxisPattern::kRing: return "ring";
    case AxisPattern::kChain: return "chain";
    case AxisPattern::kAllPairs: return "all pairs";
  }
  return "";
}

int RankGrid::size() const {
  return std::accumulate(axes.begin(), axes.end(), 1,
                         [](int product, const GridAxis& axis) { return product * axis.size; });
}

MappingInput grid_input(std::vector<GridAxis> axes, const DeviceNeed& need) {
  MappingInput input;
  input.grid = RankGrid{std::move(axes)};
  input.needs.assign(input.grid->size(), need);
  return input;
}

std::vector<RankTraffic> axis_traffic(const RankGrid& grid, int axis) {
  const GridAxis& along = grid.axes.at(axis);
  int stride = 1;
  for (size_t i = axis + 1; i < grid.axes.size(); ++i) stride *= grid.axes[i].size;
  const auto rank = [&](int position) {
    return grid.ranks.empty() ? position : grid.ranks.at(position);
  };
  std::vector<RankTraffic> traffic;
  const auto send = [&](int from, int to) {
    traffic.push_back({rank(from), rank(to), along.bytes, along.messages, along.weight});
  };
  for (int position = 0; position < grid.size(); ++position) {
    const int at = position / stride % along.size, begin = position - at * stride;
    for (int other = 0; other < along.size; ++other) {
      const bool is_next = other == (at + 1) % along.size;
      const bool sends = along.pattern == AxisPattern::kAllPairs ? other != at
                         : along.pattern == AxisPattern::kRing   ? is_next && other != at
                                                               : other == at + 1 || other == at - 1;
      if (sends) send(position, begin + other * stride);
    }
  }
  return traffic;
}

}  // namespace tessera
