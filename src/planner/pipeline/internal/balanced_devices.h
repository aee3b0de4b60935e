// Cuts of a line of units into two stages on each of several devices. This file knows numbers only.
#pragma once

#include <functional>
#include <vector>

namespace tessera {

/// What 2p stages on p devices take, by stage.
struct SplitStages {
  /// By unit, from 0 to the end: the seconds of those before it on the device of the stage.
  std::vector<std::vector<double>> before;
  /// Where a stage that begins with a unit ends at the latest.
  std::function<int(int stage, int unit)> last_end;
};

/// The end unit of each stage, so that the longest one is as short as possible; empty where there
/// are fewer units than stages, or a stage may not have its units.
///   time  O(stages x units^2)
std::vector<int> shortest_stage(const SplitStages& stages);

/// The same, so that the longest one of the first p stages and the longest one of the others are
/// as short as possible together: devices that have stages in turn do all micro-batches of a round
/// of one before those of the other.
///   time  O(stages x units^3)
std::vector<int> shortest_stage_of_both_rounds(const SplitStages& stages);

/// The same, so that the device that takes longest is as short as possible, where device d has the
/// stages d and 2p - 1 - d: a V. It does not ask where stages may end.
///   ensures  within a millionth of the least where devices are equally fast. Else a cut may be
///            missed where a stage has a unit only because every stage has one
///   time     O(devices x units^2 x log units)
std::vector<int> shortest_device_in_v(const SplitStages& stages);

}  // namespace tessera
