// The page of `tessera plan --report`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// The verdict, the ranking, and the best plan beside the best alternatives, of which each is
/// compiled and simulated again: those that the user compares, then the fastest ones of another
/// source or on another mesh.
///
///   title     of the page: the name of the configuration
///   requires  a candidate that was simulated
std::string plan_report_html(const Planned& planned, const std::string& title);

/// The candidates of the page, the best plan first: positions in planned.result.candidates. When
/// nothing fits, the nearest one is the first.
std::vector<size_t> reported_candidates(const Planned& planned);

}  // namespace tessera
