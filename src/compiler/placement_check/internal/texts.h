// Texts of axes, partial values, ranges and boxes for the messages of the check of placements.
#pragma once

#include <string>
#include <vector>

#include "base/tensor/split.h"
#include "sharding/layout/dist_attr.h"

namespace tessera {

/// "dp, tp", or "no axis".
std::string axes_text(const Mesh& mesh, const std::vector<int>& axes);
/// "sum over dp, max over tp", or "nothing".
std::string partial_text(const Mesh& mesh, const std::vector<PartialAxis>& partial);
/// "[0, 4) and [6, 8)", or "nothing".
std::string ranges_text(const std::vector<Range>& ranges);
/// "[0:4, 6:12] and [0:4, 18:24]", or "nothing".
std::string boxes_text(const std::vector<Box>& boxes);

}  // namespace tessera
