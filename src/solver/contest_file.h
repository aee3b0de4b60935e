// Problems in the public contest's form (ASPLOS 2025 / EuroSys 2025, github.com/google/iopddl):
// JSON, plain or compressed by gzip.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "solver/problem.h"

namespace tessera::solver {

/// Reads {"problem": {"nodes": {"intervals", "costs", "usages"}, "edges": {"nodes", "costs"},
/// "usage_limit"}}. Beyond the contest's form edges may hold memory: "edges" then has "intervals"
/// and "usages", with an empty list of usages where an edge holds nothing. Edges of one node add to
/// its costs. Keys may come in any order, unknown ones are passed over.
///
///   name    of the file, for messages
///   throws  UserError (bad data, 65) with line and column where the text is malformed, with node
///   or edge where the numbers do not fit
Problem parse_problem(std::string_view text, const std::string& name);

/// throws  UserError: missing input (66) when the file cannot be read, bad data (65) when it is no
/// such file
Problem read_problem(const std::filesystem::path& path);

/// The text form that parse_problem reads.
std::string to_json(const Problem& problem);

}  // namespace tessera::solver
