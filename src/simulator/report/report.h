// A predicted step as one HTML page, for one plan or several side by side. This module knows
// predictions, task graphs and clusters. It knows no configurations and no files.
//
// The page is self-contained: no network, no scripts, drawings as inline SVG, light and dark as the
// reader prefers. It is well-formed XML, too. All names are escaped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/report/reported_plan.h"

namespace tessera {

///   title     of the page: the name of the configuration
///   choice    of the plans among others; its tables stand above them
///   requires  at least one plan
///   size      bounded: tracks, machines, ranks and rows beyond a limit are counted in words
std::string report_html(const std::string& title, const std::vector<ReportedPlan>& plans,
                        const std::optional<ReportedChoice>& choice = {});

}  // namespace tessera
