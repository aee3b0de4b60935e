// Pairwise covering arrays: few rows of factor values in which any two values of different factors
// occur together. This header knows factors, values and constraints, and nothing of runs or plans.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::conformance {

struct Factor {
  std::string name;
  std::vector<std::string> values;
};

/// The value of a factor that is not chosen yet.
inline constexpr int kOpen = -1;

/// By factor: the index of its value, or kOpen.
using Row = std::vector<int>;

struct CoveringRequest {
  std::vector<Factor> factors;
  /// May a row with these values occur? It is asked for rows with open factors, too.
  ///   requires  it never allows a row when it forbids the same row with some values open
  std::function<bool(const Row&)> is_allowed = [](const Row&) { return true; };
  uint64_t seed = 1;    // of the ties between equal choices
  int candidates = 40;  // rows that are made for each row that is taken
};

/// Two values of different factors.
struct ValuePair {
  int first_factor = 0, first_value = 0;  // first_factor < second_factor
  int second_factor = 0, second_value = 0;

  bool operator==(const ValuePair&) const = default;
};

/// Does the row have both values?
bool has_pair(const Row& row, const ValuePair& pair);

/// The pairs that occur in an allowed row without open factors.
///   time  a search for each pair: exponential in the factors when constraints contradict each
///         other in a way that only whole rows show
std::vector<ValuePair> allowed_pairs(const CoveringRequest& request);

/// Rows without open factors, all of them allowed, in which every allowed pair occurs.
///
///   ensures  the same request gives the same rows
///   throws   InternalError when a factor has no value, or when no row is allowed
///   source   the greedy algorithm AETG: Cohen, Dalal, Fredman and Patton, IEEE Trans. Software
///            Engineering 23(7), 1997; constraints as forbidden tuples: Cohen, Dwyer and Shi, IEEE
///            Trans. Software Engineering 34(5), 2008
///
/// Each row begins with a pair that no earlier row has. The other factors follow in a random order,
/// each with the value that completes the most new pairs. The best of `candidates` rows is taken.
///
///     {a, b, c} with two values each:  0 0 0 | 0 1 1 | 1 0 1 | 1 1 0    4 rows in place of 8
std::vector<Row> covering_array(const CoveringRequest& request);

}  // namespace tessera::conformance
