#include "cluster/mapping/internal/configurations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "cluster/mapping/internal/grid.h"

namespace tessera {
namespace {

constexpr double kNoConfiguration = -std::numeric_limits<double>::infinity();

/// By size of a part, from 1 on: its value, or how many parts of it there are.
using BySize = std::vector<double>;

/// The most valuable parts of one axis, by the sum of their sizes.
class PartSums {
 public:
  void set(int total, std::span<const double> value) {
    const int largest = static_cast<int>(value.size()) - 1;
    max_.assign(total + 1, kNoConfiguration);
    last_.assign(total + 1, 0);
    max_[0] = 0;
    for (int t = 1; t <= total; ++t)
      for (int k = 1; k <= std::min(t, largest); ++k) {
        const double with = max_[t - k] + value[k];
        if (with <= max_[t]) continue;
        max_[t] = with;
        last_[t] = k;
      }
  }
  double maximum(int t) const { return max_[t]; }
  std::vector<int> parts(int t) const {
    std::vector<int> sizes;
    for (; t > 0; t -= last_[t]) sizes.push_back(last_[t]);
    return sizes;
  }

 private:
  std::vector<double> max_;
  std::vector<int> last_;
};

/// The most valuable parts by their number, the largest of them, and their sum.
class CountedParts {
 public:
  /// Sums up to `total`.
  CountedParts(int total, int largest) : total_(total), largest_(largest) {
    max_.resize(static_cast<size_t>(largest + 1) * (total + 1) * (total + 1), kNoConfiguration);
  }
  static int64_t steps(int64_t total, int64_t largest) { return largest * total * total / 2; }

  void set(std::span<const double> value) {
    at(0, 0, 0) = 0;
    for (int k = 1; k <= largest_; ++k) {
      at(k, 0, 0) = 0;
      for (int n = 1; n <= total_; ++n) {
        const double* less = &at(k, n - 1, 0);
        const double* smaller = &at(k - 1, n, 0);
        double* row = &at(k, n, 0);
        // n parts of at most k ranks have at most n * k.
        const int end = static_cast<int>(std::min<int64_t>(total_, int64_t{n} * k));
        for (int t = n; t <= end; ++t)
          row[t] = t < k ? smaller[t] : std::max(smaller[t], less[t - k] + value[k]);
      }
    }
  }
  /// Exactly n parts of at most `largest` ranks with a sum of t.
  double value(int n, int largest, int t) const { return max_[index(capped(largest), n, t)]; }
  std::vector<int> parts(int n, int largest, int t) const {
    std::vector<int> sizes;
    for (int k = capped(largest); n > 0;) {
      if (max_[index(k, n, t)] == max_[index(k - 1, n, t)]) {
        --k;
        continue;
      }
      sizes.push_back(k);
      --n;
      t -= k;
    }
    return sizes;
  }

 private:
  int capped(int largest) const { return std::min(largest, largest_); }
  size_t index(int k, int n, int t) const {
    return (static_cast<size_t>(k) * (total_ + 1) + n) * (total_ + 1) + t;
  }
  double& at(int k, int n, int t) { return max_[index(k, n, t)]; }

  int total_, largest_;
  std::vector<double> max_;
};

/// Sets of ranks of a product of two factors, by their size: layers, which are sets of the first
/// factor, and parts of the lines of the second one. No layer has more ranks than there are such
/// parts, and no part has more than there are layers.
class Product {
 public:
  ///   first, second  ranks of the factors
  ///   copies         of the product, in which the set may be
  Product(int first, int second, int copies, int size)
      : first_(std::min(first, size)),
        second_(std::min(second, size)),
        max_layers_(limited(second, copies, size)),
        max_parts_(limited(first, copies, size)),
        size_(size),
        layers_(size, first_),
        parts_(size, second_),
        max_(size + 1, kNoConfiguration),
        choice_(size + 1) {}

  /// The most of sets of all sizes up to that of a group; `from`: of this size on.
  const std::vector<double>& set(std::span<const double> layer, std::span<const double> part,
                                 int from) {
    layers_.set(layer);
    parts_.set(part);
    for (int t = from; t <= size_; ++t) {
      max_[t] = kNoConfiguration;
      for (int layers = 1; layers <= std::min(max_layers_, t); ++layers)
        for (int parts = (t + layers - 1) / layers; parts <= std::min(max_parts_, t); ++parts) {
          const double value = layers_.value(layers, parts, t) + parts_.value(parts, layers, t);
          if (value <= max_[t]) continue;
          max_[t] = value;
          choice_[t] = {layers, parts};
        }
    }
    return max_;
  }
  std::vector<int> layers(int t) const {
    return layers_.parts(choice_[t].first, choice_[t].second, t);
  }
  std::vector<int> parts(int t) const {
    return parts_.parts(choice_[t].second, choice_[t].first, t);
  }

 private:
  static int limited(int64_t number, int64_t copies, int64_t size) {
    return static_cast<int>(std::min(number * copies, size));
  }

  int first_, second_;          // the most of a layer and of a part
  int max_layers_, max_parts_;  // how many there can be
  int size_;
  CountedParts layers_, parts_;
  std::vector<double> max_;                  // by size of the set
  std::vector<std::pair<int, int>> choice_;  // its layers and parts
};

/// One axis: what its parts keep, and what groups pay for them.
struct PricedAxis {
  int line = 1;  // ranks of a line
  BySize kept;   // by size of a part: the sends inside of it
  BySize price;  // a rank, by size of the part
  BySize value;  // for the group: less the price and what the multipliers take

  int largest() const { return static_cast<int>(kept.size()) - 1; }
};

/// The bound of one choice of prices, and how it changes with them.
struct Bound {
  double value = 0;           // a rank
  std::vector<double> slope;  // in the order of the multipliers
};

class Configurations {
 public:
  Configurations(const RankGrid& grid, const std::vector<double>& weight,
                 const std::vector<int>& sizes)
      : ranks_(grid.size()) {
    for (const int size : sizes) {
      if (groups_.empty() || groups_.back().size != std::min(size, ranks_))
        groups_.push_back({std::min(size, ranks_), 0});
      ++groups_.back().count;
    }
    are_full_ = std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == ranks_;
    size_ = groups_.front().size;
    const int size = size_;
    for (size_t i = 0; i < grid.axes.size(); ++i) {
      const GridAxis& axis = grid.axes[i];
      if (axis.size == 1 || weight[i] <= 0) continue;
      PricedAxis made{axis.size, {0}, {}, {}};
      for (int k = 1; k <= std::min(axis.size, size); ++k)
        made.kept.push_back(weight[i] * k * sends_a_rank(axis, k));
      axes_.push_back(made);
    }
    // The axes that keep most for a factor of the size first.
    std::ranges::stable_sort(axes_, std::greater<>(), [](const PricedAxis& axis) {
      return axis.kept.back() / axis.largest() / std::log(axis.largest());
    });
    for (const PricedAxis& axis : axes_) {
      steps_ += int64_t{axis.largest()} * (axis.line + size);
      multipliers_ += axis.kept.size() - 1;
    }
    multipliers_ += nonnegative() + 1;
    int64_t counted = 0, ranks = 1;
    for (const PricedAxis& axis : axes_) {
      if (ranks > 1)
        counted += CountedParts::steps(size, std::min<int64_t>(ranks, size)) +
                   CountedParts::steps(size, axis.largest());
      ranks *= axis.line;
    }
    if (counted > kMaxCounted) return;
    steps_ += counted;
    // Axes without traffic are copies of all others.
    const auto copies = static_cast<int>(grid.size() / ranks);
    ranks = axes_.empty() ? 1 : axes_[0].line;
    for (size_t i = 1; i < axes_.size(); ++i) {
      const bool is_last = i + 1 == axes_.size();
      products_.emplace_back(static_cast<int>(ranks), axes_[i].line, is_last ? copies : 1, size);
      ranks *= axes_[i].line;
    }
  }
  size_t multipliers() const { return multipliers_; }
  size_t axes() const { return axes_.size(); }
  int64_t steps() const { return steps_; }

  /// Multipliers: of the entropy; of each pair of axes; the prices by axis and size of a part; of
  /// the number of ranks, where groups need not be full. The first two are not negative.
  size_t nonnegative() const { return 1 + axes_.size() * axes_.size(); }

  Bound at(const std::vector<double>& multiplier) {
    Bound bound{0, std::vector<double>(multipliers_, 0)};
    set_values(multiplier);
    set_groups();
    for (const Groups& groups : groups_) add_groups(groups, multiplier, bound);
    if (!are_full_) {
      bound.value += multiplier.back();
      bound.slope.back() += 1;
    }
    size_t first = nonnegative();
    PartSums cut;
    for (const PricedAxis& axis : axes_) {
      BySize asked(axis.kept.size(), 0);
      for (int k = 1; k <= axis.largest(); ++k) asked[k] = k * axis.price[k];
      cut.set(axis.line, asked);
      bound.value += cut.maximum(axis.line) / axis.line;
      for (int k : cut.parts(axis.line))
        bound.slope[first + k - 1] += static_cast<double>(k) / axis.line;
      first += axis.kept.size() - 1;
    }
    return bound;
  }

 private:
  static constexpr int64_t kMaxCounted = 4'000'000;

  /// Groups of one size.
  struct Groups {
    int size = 0;
    int count = 0;
  };

  /// The best configuration of groups of one size.
  void add_groups(const Groups& groups, const std::vector<double>& multiplier, Bound& bound) const {
    const auto value = [&](int t) {
      const double all = t == 0 ? 0 : maximum(t) + multiplier[0] * t * std::log(t);
      return are_full_ ? all : all - multiplier.back() * t;
    };
    int best = are_full_ ? groups.size : 0;
    for (int t = best + 1; t <= groups.size; ++t)
      if (value(t) > value(best)) best = t;
    if (best == 0) return;
    const double times = static_cast<double>(groups.count) / ranks_;  // a rank
    bound.value += times * value(best);
    if (!are_full_) bound.slope.back() -= times * best;
    bound.slope[0] += times * best * std::log(best);
    const std::vector<std::vector<int>> parts = parts_of(best);
    size_t first = nonnegative();
    for (size_t i = 0; i < axes_.size(); ++i) {
      double squares = 0;
      for (int k : parts[i]) {
        bound.slope[0] -= times * k * std::log(k);
        bound.slope[first + k - 1] -= times * k;
        squares += static_cast<double>(k) * k / size_;
      }
      for (size_t j = 0; j < axes_.size(); ++j) {
        if (j == i) continue;
        bound.slope[pair(i, j)] += times * static_cast<double>(parts[i].size());
        bound.slope[pair(j, i)] -= times * squares;
      }
      first += axes_[i].kept.size() - 1;
    }
  }

  /// Of: no part of axis j has more ranks than there are parts of axis i.
  size_t pair(size_t i, size_t j) const { return 1 + i * axes_.size() + j; }

  void set_values(const std::vector<double>& multiplier) {
    size_t first = nonnegative();
    for (size_t i = 0; i < axes_.size(); ++i) {
      PricedAxis& axis = axes_[i];
      axis.price.assign(axis.kept.size(), 0);
      std::copy_n(multiplier.begin() + static_cast<std::ptrdiff_t>(first), axis.largest(),
                  axis.price.begin() + 1);
      first += axis.kept.size() - 1;
      double of_number = 0, of_square = 0;
      for (size_t j = 0; j < axes_.size(); ++j) {
        if (j == i) continue;
        of_number += multiplier[pair(i, j)];
        of_square += multiplier[pair(j, i)];
      }
      axis.value.assign(axis.kept.size(), kNoConfiguration);
      for (int k = 1; k <= axis.largest(); ++k)
        axis.value[k] = axis.kept[k] - k * axis.price[k] - multiplier[0] * k * std::log(k) +
                        of_number - of_square * k * k / size_;
    }
  }

  /// Finds the configurations of most value, or upper bounds of it, of sets of any size; of full
  /// groups only of their size.
  void set_groups() {
    if (products_.empty()) {
      sums_.resize(axes_.size());
      for (size_t i = 0; i < axes_.size(); ++i) sums_[i].set(size_, axes_[i].value);
      return;
    }
    std::span<const double> layer = axes_[0].value;
    const bool is_one_size = are_full_ && groups_.size() == 1;
    for (size_t p = 0; p < products_.size(); ++p)
      layer = products_[p].set(layer, axes_[p + 1].value,
                               is_one_size && p + 1 == products_.size() ? size_ : 1);
    max_ = layer;
  }
  /// The most value of a set of t ranks.
  double maximum(int t) const {
    if (!products_.empty()) return max_[t];
    double sum = 0;
    for (const PartSums& sums : sums_) sum += sums.maximum(t);
    return sum;
  }
  /// Its parts by axis.
  std::vector<std::vector<int>> parts_of(int t) const {
    std::vector<std::vector<int>> parts(axes_.size());
    if (products_.empty())
      for (size_t i = 0; i < axes_.size(); ++i) parts[i] = sums_[i].parts(t);
    else
      collect(products_.size(), t, parts);
    return parts;
  }
  /// Adds the parts of a set of t ranks of the first axes.
  void collect(size_t product, int t, std::vector<std::vector<int>>& parts) const {
    if (product == 0) {
      parts[0].push_back(t);
      return;
    }
    const Product& joined = products_[product - 1];
    for (int k : joined.parts(t)) parts[product].push_back(k);
    for (int layer : joined.layers(t)) collect(product - 1, layer, parts);
  }

  int ranks_;
  std::vector<Groups> groups_;  // the largest first
  bool are_full_ = false;       // all of them
  int size_ = 1;                // of the largest one
  std::vector<PricedAxis> axes_;
  std::vector<Product> products_;  // of the first axes with the next one; empty: too large
  std::vector<PartSums> sums_;     // by axis, without products
  std::span<const double> max_;    // by size of a set, with products
  size_t multipliers_ = 0;
  int64_t steps_ = 0;
};

}  // namespace

double max_inside_of_groups(const RankGrid& grid, const std::vector<double>& weight,
                            const std::vector<int>& sizes, double reached) {
  Configurations configurations(grid, weight, sizes);
  if (configurations.axes() == 0) return 0;
  const double target = reached / grid.size();
  constexpr int64_t kMaxSteps = 150'000'000;
  constexpr int kMaxRounds = 600;
  const int rounds =
      static_cast<int>(std::min<int64_t>(kMaxRounds, kMaxSteps / configurations.steps()));
  std::vector<double> at(configurations.multipliers(), 0), best_at = at, direction(at.size(), 0);
  double best = std::numeric_limits<double>::infinity(), scale = 1;
  for (int round = 0, fruitless = 0; round < rounds && best > target * (1 + 1e-9); ++round) {
    const Bound bound = configurations.at(at);
    if (bound.value < best) {
      if (bound.value < best - 1e-4 * std::abs(best)) fruitless = 0;
      best = bound.value;
      best_at = at;
    }
    if (++fruitless > 20) {
      scale /= 2;
      fruitless = 0;
      at = best_at;
      std::fill(direction.begin(), direction.end(), 0);
      if (scale < 1e-3) break;
      continue;
    }
    const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    const double before = dot(direction, direction), turn = dot(direction, bound.slope);
    const double kept = before > 0 ? std::max(0.0, -1.5 * turn / before) : 0;
    for (size_t i = 0; i < direction.size(); ++i)
      direction[i] = bound.slope[i] + kept * direction[i];
    // What a bound of not less than 0 cannot lose is no direction.
    for (size_t i = 0; i < configurations.nonnegative(); ++i)
      if (at[i] <= 0 && direction[i] > 0) direction[i] = 0;
    const double square = dot(direction, direction);
    if (square < 1e-20) break;
    const double step = scale * (bound.value - target) / square;
    for (size_t i = 0; i < at.size(); ++i) {
      at[i] -= step * direction[i];
      if (i < configurations.nonnegative()) at[i] = std::max(0.0, at[i]);
    }
  }
  return best * grid.size();
}

}  // namespace tessera
