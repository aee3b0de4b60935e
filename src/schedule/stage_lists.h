// Orders that are made stage by stage, and brought together where stages share a device.
#pragma once

#include <vector>

#include "schedule/passes.h"

namespace tessera {

/// throws  UserError (78)
[[noreturn]] void refuse_circle();
/// throws  UserError (78) when passes of one micro-batch need each other in a circle
void refuse_circles(const PipelineShape& shape);

/// The stages on the longest way of forward passes from each stage to the end, itself counted.
/// throws  UserError (78) when forward passes need each other in a circle
std::vector<int> distances_to_end(const PipelineShape& shape);

/// Forward and whole backward passes of one stage: `ahead` forwards, then one backward and one
/// forward in turn.
std::vector<Pass> alternate(int stage, int micro_batches, int ahead);

/// One order a device from one list a stage: of the stages of a device always that goes on whose
/// next pass can begin first. throws  UserError (78) when stages wait for each other in a circle
DeviceOrders merge_stage_lists(const PipelineShape& shape,
                               const std::vector<std::vector<Pass>>& lists);

}  // namespace tessera
