// Orders that are made stage by stage and merged where stages share a device.
#pragma once

#include <string>
#include <vector>

#include "compiler/schedule/internal/passes.h"

namespace tessera {

///   example  of it, as a sentence without its end; "": none is known
///   throws   UserError (78)
[[noreturn]] void refuse_cycle(const std::string& example = "");
/// Passes of one micro-batch that need each other in a cycle: each needs the next one, and the last
/// the first. Empty when there are none.
std::vector<PassNeed> find_cycle(const PipelineShape& shape);

/// The number of stages on the longest path of forward passes from each stage to the end, including
/// itself.
///   throws  UserError (78) when forward passes need each other in a cycle
std::vector<int> distances_to_end(const PipelineShape& shape);

/// Forward and whole backward passes of one stage: `ahead` forwards, then alternately one backward
/// and one forward.
std::vector<Pass> alternate(int stage, int micro_batches, int ahead);

/// Makes one order per device from one list per stage. The device takes the next pass of the stage
/// whose next pass can begin first.
///   throws  UserError (78) when stages wait for each other in a cycle
DeviceOrders merge_stage_lists(const PipelineShape& shape,
                               const std::vector<std::vector<Pass>>& lists);

}  // namespace tessera
