// Graphs for any number of rows: a text with symbols in place of what depends on the rows of the
// batch and on the seed of the run. ir/models/graph_file.h describes the symbols.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// Rows for which graphs are written to find what depends on them. They have many divisors, and
/// indices of their elements stay in i32.
inline constexpr std::array<int64_t, 3> kRowsToCompare = {5040, 10080, 15120};

/// The text of the graphs `texts`, which were written for kRowsToCompare rows.
///   name    of what is written, for messages
///   throws  UserError (65) when they differ in more than numbers that are linear in the rows or
///           quotients by them
std::string text_for_any_rows(const std::array<std::string, 3>& texts, const std::string& name);

/// The inverse, for a number of rows and a seed.
///   throws  UserError (65) for a symbol of another form, or a number that is too large
std::string text_for_rows(std::string_view text, int64_t rows, uint64_t seed);

}  // namespace tessera
