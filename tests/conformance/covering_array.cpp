#include "covering_array.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"

namespace tessera::conformance {
namespace {

int factor_count(const CoveringRequest& request) {
  return static_cast<int>(request.factors.size());
}

int value_count(const CoveringRequest& request, int factor) {
  return static_cast<int>(request.factors[static_cast<size_t>(factor)].values.size());
}

/// Can the open factors of the row, from `factor` on, be chosen so that the row is allowed?
bool has_completion(const CoveringRequest& request, Row& row, int factor = 0) {
  if (factor == 0 && !request.is_allowed(row)) return false;
  while (factor < factor_count(request) && row[static_cast<size_t>(factor)] != kOpen) ++factor;
  if (factor == factor_count(request)) return true;
  int& value = row[static_cast<size_t>(factor)];
  bool found = false;
  for (value = 0; value < value_count(request, factor) && !found; ++value)
    found = request.is_allowed(row) && has_completion(request, row, factor + 1);
  value = kOpen;
  return found;
}

/// The pairs that no row has yet.
class OpenPairs {
 public:
  explicit OpenPairs(const CoveringRequest& request) {
    for (const Factor& factor : request.factors) {
      first_id_.push_back(values_);
      values_ += static_cast<int>(factor.values.size());
    }
    is_open_.assign(static_cast<size_t>(values_) * static_cast<size_t>(values_), false);
    list_ = allowed_pairs(request);
    for (const ValuePair& pair : list_) set(pair, true);
    count_ = static_cast<int>(list_.size());
  }

  int count() const { return count_; }

  /// A pair that is open; the next one in each call.
  const ValuePair& next(size_t start) const {
    for (size_t i = 0; i < list_.size(); ++i)
      if (const ValuePair& pair = list_[(start + i) % list_.size()]; is_open(pair)) return pair;
    throw InternalError("a pair is open");
  }

  /// The number of open pairs that the value of `factor` completes with the other values.
  int gain(const Row& row, int factor, int value) const {
    int sum = 0;
    for (int other = 0; other < static_cast<int>(row.size()); ++other)
      if (other != factor && row[static_cast<size_t>(other)] != kOpen)
        sum += is_open_[at(factor, value, other, row[static_cast<size_t>(other)])];
    return sum;
  }

  int gain(const Row& row) const {
    int sum = 0;
    for (int factor = 0; factor < static_cast<int>(row.size()); ++factor)
      sum += gain(row, factor, row[static_cast<size_t>(factor)]);
    return sum / 2;
  }

  void close(const Row& row) {
    for (const ValuePair& pair : list_)
      if (is_open(pair) && has_pair(row, pair)) {
        set(pair, false);
        --count_;
      }
  }

 private:
  size_t at(int factor, int value, int other, int other_value) const {
    const int row = first_id_[static_cast<size_t>(factor)] + value;
    const int column = first_id_[static_cast<size_t>(other)] + other_value;
    return static_cast<size_t>(row) * static_cast<size_t>(values_) + static_cast<size_t>(column);
  }
  bool is_open(const ValuePair& pair) const {
    return is_open_[at(pair.first_factor, pair.first_value, pair.second_factor, pair.second_value)];
  }
  void set(const ValuePair& pair, bool open) {
    is_open_[at(pair.first_factor, pair.first_value, pair.second_factor, pair.second_value)] = open;
    is_open_[at(pair.second_factor, pair.second_value, pair.first_factor, pair.first_value)] = open;
  }

  std::vector<int> first_id_;  // by factor: the number of its first value among all values
  int values_ = 0;
  std::vector<bool> is_open_;
  std::vector<ValuePair> list_;
  int count_ = 0;
};

using Dice = std::mt19937_64;

/// The value of the factor that completes the most open pairs, of those that a completion has.
int best_value(const CoveringRequest& request, const OpenPairs& open, Row& row, int factor,
               Dice& dice) {
  std::vector<int> best;
  int largest = -1;
  for (int value = 0; value < value_count(request, factor); ++value) {
    const int gain = open.gain(row, factor, value);
    if (gain < largest) continue;
    row[static_cast<size_t>(factor)] = value;
    const bool is_possible = has_completion(request, row);
    row[static_cast<size_t>(factor)] = kOpen;
    if (!is_possible) continue;
    if (gain > largest) best.clear();
    largest = gain;
    best.push_back(value);
  }
  ensure(!best.empty(), "a row with a completion has one for each factor");
  return best[dice() % best.size()];
}

Row candidate_row(const CoveringRequest& request, const OpenPairs& open, Dice& dice) {
  Row row(request.factors.size(), kOpen);
  const ValuePair& pair = open.next(dice());
  row[static_cast<size_t>(pair.first_factor)] = pair.first_value;
  row[static_cast<size_t>(pair.second_factor)] = pair.second_value;
  std::vector<int> order(request.factors.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[dice() % (i + 1)]);
  for (const int factor : order)
    if (row[static_cast<size_t>(factor)] == kOpen)
      row[static_cast<size_t>(factor)] = best_value(request, open, row, factor, dice);
  return row;
}

}  // namespace

bool has_pair(const Row& row, const ValuePair& pair) {
  return row[static_cast<size_t>(pair.first_factor)] == pair.first_value &&
         row[static_cast<size_t>(pair.second_factor)] == pair.second_value;
}

std::vector<ValuePair> allowed_pairs(const CoveringRequest& request) {
  std::vector<ValuePair> pairs;
  Row row(request.factors.size(), kOpen);
  for (int first = 0; first < factor_count(request); ++first)
    for (int second = first + 1; second < factor_count(request); ++second)
      for (int v = 0; v < value_count(request, first); ++v)
        for (int w = 0; w < value_count(request, second); ++w) {
          row[static_cast<size_t>(first)] = v;
          row[static_cast<size_t>(second)] = w;
          if (has_completion(request, row)) pairs.push_back({first, v, second, w});
          row[static_cast<size_t>(first)] = row[static_cast<size_t>(second)] = kOpen;
        }
  return pairs;
}

std::vector<Row> covering_array(const CoveringRequest& request) {
  for (const Factor& factor : request.factors)
    ensure(!factor.values.empty(), "factor " + factor.name + " has a value");
  OpenPairs open(request);
  ensure(open.count() > 0, "some row is allowed");
  Dice dice(request.seed);
  std::vector<Row> rows;
  while (open.count() > 0) {
    Row best;
    int largest = 0;
    for (int i = 0; i < request.candidates; ++i) {
      Row row = candidate_row(request, open, dice);
      if (const int gain = open.gain(row); gain > largest) {
        largest = gain;
        best = std::move(row);
      }
    }
    open.close(best);
    rows.push_back(std::move(best));
  }
  return rows;
}

}  // namespace tessera::conformance
