#include "covering_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace tessera::conformance {
namespace {

std::vector<Factor> factors_of(const std::vector<int>& value_counts) {
  std::vector<Factor> factors;
  for (const int count : value_counts) {
    Factor factor{"f" + std::to_string(factors.size()), {}};
    for (int value = 0; value < count; ++value) factor.values.push_back(std::to_string(value));
    factors.push_back(std::move(factor));
  }
  return factors;
}

/// All rows without open factors, allowed or not.
std::vector<Row> all_rows(const std::vector<Factor>& factors) {
  std::vector<Row> rows{{}};
  for (const Factor& factor : factors) {
    std::vector<Row> longer;
    for (const Row& row : rows)
      for (int value = 0; value < static_cast<int>(factor.values.size()); ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    rows = std::move(longer);
  }
  return rows;
}

using Four = std::array<int, 4>;

/// The pairs of some rows, by brute force.
std::set<Four> pairs_in(const std::vector<Row>& rows) {
  std::set<Four> pairs;
  for (const Row& row : rows)
    for (int a = 0; a < static_cast<int>(row.size()); ++a)
      for (int b = a + 1; b < static_cast<int>(row.size()); ++b)
        pairs.insert({a, row[static_cast<size_t>(a)], b, row[static_cast<size_t>(b)]});
  return pairs;
}

std::vector<Row> allowed_rows(const CoveringRequest& request) {
  std::vector<Row> rows = all_rows(request.factors);
  std::erase_if(rows, [&](const Row& row) { return !request.is_allowed(row); });
  return rows;
}

void expect_covers_what_is_allowed(const CoveringRequest& request) {
  const std::vector<Row> rows = covering_array(request);
  for (const Row& row : rows) EXPECT_TRUE(request.is_allowed(row));
  EXPECT_EQ(pairs_in(rows), pairs_in(allowed_rows(request)));
}

TEST(CoveringArray, HasEveryPairOfFactorsOfDifferentSizes) {
  for (const std::vector<int>& counts :
       {std::vector{2, 2, 2}, {3, 3, 3, 3}, {5, 2, 4, 1, 3}, {7, 1}, {2, 2, 2, 2, 2, 2, 2, 2}})
    expect_covers_what_is_allowed({.factors = factors_of(counts)});
}

/// No value 2 of f0 beside value 2 of f1, and value 1 of f2 only beside value 0 of f3.
bool is_allowed_pairwise(const Row& row) {
  if (row[0] == 2 && row[1] == 2) return false;
  return row[2] != 1 || row[3] == 0 || row[3] == kOpen;
}

TEST(CoveringArray, HasEveryPairThatConstraintsAllowAndNoRowThatTheyForbid) {
  expect_covers_what_is_allowed(
      {.factors = factors_of({3, 3, 3, 3, 2}), .is_allowed = is_allowed_pairwise});
}

/// The sum is at most 4. Values below 2 make room for larger ones.
bool is_small(const Row& row) {
  int sum = 0;
  for (const int value : row) sum += std::max(value, 0);
  return sum <= 4;
}

// Value 3 of f0 beside value 3 of f1 is in no row, although each is allowed alone.
TEST(CoveringArray, LeavesOutPairsThatNoWholeRowHas) {
  const CoveringRequest request{.factors = factors_of({4, 4, 4, 2}), .is_allowed = is_small};
  expect_covers_what_is_allowed(request);
  const std::vector<ValuePair> pairs = allowed_pairs(request);
  EXPECT_EQ(std::ranges::count(pairs, ValuePair{0, 3, 1, 3}), 0);
  EXPECT_EQ(std::ranges::count(pairs, ValuePair{0, 3, 1, 1}), 1);
  EXPECT_EQ(pairs.size(), pairs_in(allowed_rows(request)).size());
}

/// f0 and f1 say the same, f1 and f2 too: what follows for f0 and f2 is in no single constraint.
bool are_equal(const Row& row) {
  return (row[0] == kOpen || row[1] == kOpen || row[0] == row[1]) &&
         (row[1] == kOpen || row[2] == kOpen || row[1] == row[2]);
}

TEST(CoveringArray, FollowsConstraintsThroughOpenFactors) {
  const CoveringRequest request{.factors = factors_of({3, 3, 3, 2}), .is_allowed = are_equal};
  expect_covers_what_is_allowed(request);
  EXPECT_EQ(std::ranges::count(allowed_pairs(request), ValuePair{0, 1, 2, 2}), 0);
}

// 9 is the least for four factors of three values (an orthogonal array), 6 for ten of two (Kleitman
// and Spencer, Discrete Mathematics 6, 1973). The greedy algorithm is within a few rows of that.
TEST(CoveringArray, HasFewRows) {
  EXPECT_LE(covering_array({.factors = factors_of({3, 3, 3, 3})}).size(), 11u);
  EXPECT_LE(covering_array({.factors = factors_of(std::vector<int>(10, 2))}).size(), 9u);
}

TEST(CoveringArray, IsTheSameForTheSameSeed) {
  CoveringRequest request{.factors = factors_of({4, 3, 3, 2, 2})};
  const std::vector<Row> rows = covering_array(request);
  EXPECT_EQ(covering_array(request), rows);
  request.seed = 2;
  EXPECT_NE(covering_array(request), rows);
}

TEST(CoveringArray, OfFactorsThatNoRowCanHaveIsRefused) {
  EXPECT_THROW(covering_array({.factors = factors_of({2, 0})}), InternalError);
  EXPECT_THROW(covering_array({.factors = factors_of({2, 2}),
                               .is_allowed = [](const Row& row) { return row[0] == kOpen; }}),
               InternalError);
}

}  // namespace
}  // namespace tessera::conformance
