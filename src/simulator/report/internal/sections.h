// The sections of the page about one plan. Each is HTML; "" when there is nothing to say.
#pragma once

#include <string>

#include "simulator/report/reported_plan.h"

namespace tessera {

/// By simulated rank and stream, what runs when in the last step.
std::string timeline_section(const ReportedPlan& plan);
/// The live bytes of each simulated rank by kind, and the contents of the peak.
std::string memory_section(const ReportedPlan& plan);
/// Bytes by pair of ranks, and by axis with the exposed time.
std::string communication_section(const ReportedPlan& plan);
/// The machines with their devices, and which ranks of which meshes are on them.
std::string cluster_section(const ReportedPlan& plan);

}  // namespace tessera
