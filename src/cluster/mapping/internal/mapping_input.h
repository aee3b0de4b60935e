// What is mapped: the ranks of a program, what each needs of its device, and what they exchange in
// a step. It knows no plans and no tensors.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster/description.h"

namespace tessera {

/// What a rank needs of its device.
struct DeviceNeed {
  std::optional<HardwareKind> kind = std::nullopt;  // any, when it is empty
  std::string type = "";                            // the name of a device type; "" for any
  Bytes memory{0};                                  // without the reserve of the device
  double flops_per_second = 0;

  bool operator==(const DeviceNeed&) const = default;
};

/// What one rank sends to another one in a step.
struct RankTraffic {
  Rank from = 0, to = 0;
  Bytes bytes{0};
  double messages = 1;
  /// What a second of it counts: less than 1 for traffic that overlaps with computation.
  double weight = 1;
};

/// Which ranks of an axis exchange data.
enum class AxisPattern : uint8_t {
  kRing,      // each sends to the next one, and the last one to the first: ring collectives
  kChain,     // each sends to the next one and to the one before: stages of a pipeline
  kAllPairs,  // each sends to every other one: an all-to-all
};
std::string_view to_text(AxisPattern pattern);  // "ring", "chain", "all pairs"

/// The traffic of one axis of a grid of ranks, which is the same in all of its lines.
struct GridAxis {
  std::string name;  // "tp"
  int size = 1;
  AxisPattern pattern = AxisPattern::kRing;
  Bytes bytes{0};  // of each of the sends that the pattern names
  double messages = 1;
  double weight = 1;
};

/// Ranks in a grid. `ranks` has them row by row, the last axis fastest; empty: 0, 1, 2, ...
struct RankGrid {
  std::vector<GridAxis> axes;
  std::vector<Rank> ranks = {};

  int size() const;  // the product of the axes
};

struct MappingInput {
  std::vector<DeviceNeed> needs;          // by rank
  std::vector<RankTraffic> traffic = {};  // beside that of the grid
  std::optional<RankGrid> grid = std::nullopt;
};

/// All ranks of a grid, with equal needs.
MappingInput grid_input(std::vector<GridAxis> axes, const DeviceNeed& need = {});

/// The sends of one axis of a grid.
std::vector<RankTraffic> axis_traffic(const RankGrid& grid, int axis);

}  // namespace tessera
