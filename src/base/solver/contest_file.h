// Problems in the format of the public contest (ASPLOS 2025 / EuroSys 2025,
// github.com/google/iopddl): JSON, plain or compressed by gzip.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/solver/problem.h"

namespace tessera::solver {

/// Parses {"problem": {"nodes": {"intervals", "costs", "usages"}, "edges": {"nodes", "costs"},
/// "usage_limit"}}. In an extension of the contest's format, edges may hold memory: "edges" then
/// has "intervals" and "usages", with an empty list of usages where an edge holds nothing. Edges of
/// one node add to its costs. Keys may come in any order, and unknown ones are ignored.
///
///   name    the name of the file, for messages
///   throws  UserError (65) with line and column where the text is malformed, with node or edge
///           where the numbers do not fit
Problem parse_problem(std::string_view text, const std::string& name);

///   throws  UserError: 66 when the file cannot be read, 65 when it is malformed
Problem read_problem(const std::filesystem::path& path);

/// The text that parse_problem reads.
std::string to_json(const Problem& problem);

}  // namespace tessera::solver
