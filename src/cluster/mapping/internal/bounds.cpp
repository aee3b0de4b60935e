#include "cluster/mapping/internal/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "cluster/mapping/internal/configurations.h"
#include "cluster/mapping/internal/down_sets.h"
#include "cluster/mapping/internal/grid.h"
#include "cluster/mapping/internal/parts.h"

namespace tessera {
namespace {

/// An upper bound of a quantity for sets of `from` to `to` ranks.
struct Piece {
  int from = 1, to = 1;
  double maximum = 0;
};
/// By the number of ranks, from 1 on; it does not fall.
using Curve = std::vector<Piece>;

/// The ends of the pieces up to `size`: all small numbers, then `kPiecesAnOctave` for each
/// doubling.
std::vector<int> ends_up_to(int size) {
  constexpr int kAll = 32, kPiecesAnOctave = 16;
  std::vector<int> ends;
  for (int k = 1; k <= std::min(size, kAll); ++k) ends.push_back(k);
  for (int k = kAll; k < size; k *= 2)
    for (int i = 1; i <= kPiecesAnOctave; ++i)
      if (const int end = k + k / kPiecesAnOctave * i; end <= size) ends.push_back(end);
  if (ends.back() != size) ends.push_back(size);
  return ends;
}

Curve curve(int size, const std::function<double(int)>& max_at) {
  Curve made;
  int from = 1;
  double maximum = 0;
  for (int end : ends_up_to(size)) {
    maximum = std::max(maximum, max_at(end));
    made.push_back({from, end, maximum});
    from = end + 1;
  }
  return made;
}

Curve axis_curve(const GridAxis& axis, double weight, int size) {
  // Within a piece the sends a rank rise with the number of ranks.
  return curve(std::min(size, axis.size), [&](int k) { return weight * sends_a_rank(axis, k); });
}

/// A part of a concave function of log k: its slope and its length.
struct Slope {
  double rise = 0, length = 0;
};

/// The concave envelope of weight x sends a rank over log k.
void add_slopes(const GridAxis& axis, double weight, int size, std::vector<Slope>& slopes) {
  std::vector<std::pair<double, double>> hull;
  for (int k = 1; k <= std::min(axis.size, size); ++k) {
    const std::pair point(std::log(k), weight * sends_a_rank(axis, k));
    while (hull.size() >= 2) {
      const auto& [x1, y1] = hull[hull.size() - 2];
      const auto& [x2, y2] = hull.back();
      if ((y2 - y1) * (point.first - x1) > (point.second - y1) * (x2 - x1)) break;
      hull.pop_back();
    }
    hull.push_back(point);
  }
  for (size_t i = 0; i + 1 < hull.size(); ++i) {
    const double length = hull[i + 1].first - hull[i].first;
    slopes.push_back({(hull[i + 1].second - hull[i].second) / length, length});
  }
}

/// The bound of the entropies alone: the steepest parts of all envelopes up to log size.
double entropy_bound(std::vector<Slope> slopes, int size) {
  std::sort(slopes.begin(), slopes.end(),
            [](const Slope& a, const Slope& b) { return a.rise > b.rise; });
  double left = std::log(size), sum = 0;
  for (const Slope& slope : slopes) {
    const double taken = std::min(left, slope.length);
    sum += taken * slope.rise;
    left -= taken;
  }
  return sum;
}

/// What two factors of a product keep inside of a set of `size` ranks, a rank. K and k are the
/// ranks of the set in the slices of the two factors: E[k] <= size E[1 / K], E[K] <= size E[1 / k]
/// and E[log K + log k] <= log size. Every choice of multipliers gives a bound; they are improved
/// by subgradient steps of Polyak's length.
class PairBound {
 public:
  PairBound(const Curve& a, const Curve& b, int size)
      : a_(a), b_(b), size_(size), log_size_(std::log(size)) {
    const double reached = reached_by_boxes();
    multipliers_ = {0, 0, reached / log_size_};
    constexpr int kSteps = 150;
    constexpr double kClose = 1e-7;
    for (int step = 0; step < kSteps && best_ > reached * (1 + kClose); ++step)
      if (!improve(reached)) break;
  }
  double value() const { return best_; }

 private:
  double reached_by_boxes() const {
    double reached = 0;
    for (const Piece& x : a_) {
      if (x.to > size_) break;
      for (const Piece& y : b_)
        if (static_cast<int64_t>(x.to) * y.to <= size_)
          reached = std::max(reached, x.maximum + y.maximum);
    }
    return reached;
  }
  /// The piece with the largest value less the prices of its least number of ranks.
  std::pair<double, int> largest(const Curve& curve, double of_number, double of_inverse) const {
    std::pair<double, int> best(-std::numeric_limits<double>::infinity(), 1);
    for (const Piece& piece : curve) {
      if (piece.from > size_) break;
      const double value = piece.maximum - of_number * piece.from -
                           multipliers_[2] * std::log(piece.from) + of_inverse * size_ / piece.from;
      if (value > best.first) best = {value, piece.from};
    }
    return best;
  }
  bool improve(double reached) {
    const auto [x_value, x] = largest(a_, multipliers_[1], multipliers_[0]);
    const auto [y_value, y] = largest(b_, multipliers_[0], multipliers_[1]);
    const double value = x_value + y_value + multipliers_[2] * log_size_;
    best_ = std::min(best_, value);
    // The first two in units of the size, so that all have one scale.
    const double s = size_;
    const std::array<double, 3> slope{(s / x - y) / s, (s / y - x) / s,
                                      log_size_ - std::log(x) - std::log(y)};
    const double square = slope[0] * slope[0] + slope[1] * slope[1] + slope[2] * slope[2];
    if (square < 1e-18) return false;
    const double step = (value - reached) / square;
    multipliers_[0] = std::max(0.0, multipliers_[0] - step * slope[0] / s);
    multipliers_[1] = std::max(0.0, multipliers_[1] - step * slope[1] / s);
    multipliers_[2] = std::max(0.0, multipliers_[2] - step * slope[2]);
    return true;
  }

  const Curve &a_, &b_;
  int size_;
  double log_size_;
  std::array<double, 3> multipliers_{};
  double best_ = std::numeric_limits<double>::infinity();
};

/// The bound of the eigenvalues, for groups that have all ranks and are equal.
double eigenvalue_bound(const RankGrid& grid, const std::vector<double>& weight, int size) {
  std::vector<double> values{0};
  for (size_t i = 0; i < grid.axes.size(); ++i) {
    const int m = grid.axes[i].size;
    std::vector<double> next;
    for (double value : values)
      for (int j = 0; j < m; ++j) {
        const double turn =
            std::numbers::pi *
            (grid.axes[i].pattern == AxisPattern::kRing ? 2.0 * j / m : (j + 1.0) / (m + 1));
        const double own = m == 1                                       ? 0
                           : grid.axes[i].pattern == AxisPattern::kRing ? 2 * std::cos(turn)
                           : grid.axes[i].pattern == AxisPattern::kChain
                               ? 4 * std::cos(turn)
                               : 2.0 * (j == 0 ? m - 1 : -1);
        next.push_back(value + weight[i] * own);
      }
    values = std::move(next);
  }
  const int groups = grid.size() / size;
  std::partial_sort(values.begin(), values.begin() + groups, values.end(), std::greater<>());
  return std::accumulate(values.begin(), values.begin() + groups, 0.0) / (2.0 * groups);
}

}  // namespace

std::vector<TreeLevel> levels_of(const DeviceTree& tree) {
  int types = 0;
  for (Place p = 0; p < tree.size(); ++p) types = std::max(types, tree.type(p) + 1);
  const std::vector<bool> all(types, true);
  return levels_of(tree, all, all);
}

std::vector<TreeLevel> levels_of(const DeviceTree& tree, const std::vector<bool>& from,
                                 const std::vector<bool>& to) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<TreeLevel> levels;
  LinkPrice smallest{kNone, kNone};
  for (int height = tree.height(); height >= 1; --height) {
    for (size_t n = 0; n < tree.nodes().size(); ++n) {
      if (tree.nodes()[n].height != height) continue;
      const LinkPrice link = tree.best_link(static_cast<int>(n), from, to);
      smallest.per_byte = std::min(smallest.per_byte, link.per_byte);
      smallest.per_message = std::min(smallest.per_message, link.per_message);
    }
    std::vector<int> sizes;
    const std::vector<Place> group = tree.groups(height);
    for (Place p = 0; p < tree.size(); ++p) {
      if (p == 0 || group[p] != group[p - 1]) sizes.push_back(0);
      ++sizes.back();
    }
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    levels.insert(levels.begin(), {smallest, std::move(sizes)});
  }
  if (smallest.per_byte == kNone) return {};
  // A level that joins no two of the places, nor do those further out, costs what the next inner
  // one does.
  for (size_t h = 1; h < levels.size(); ++h)
    if (levels[h].smallest.per_byte == kNone) levels[h].smallest = levels[h - 1].smallest;
  return levels;
}

double edges_bound(const MappingProblem& problem) {
  const size_t needs = problem.fits.size();
  std::vector<std::vector<TreeLevel>> levels;  // by two needs
  for (size_t a = 0; a < needs; ++a)
    for (size_t b = 0; b < needs; ++b)
      levels.push_back(levels_of(problem.tree, problem.fits[a], problem.fits[b]));
  const std::vector<TreeLevel> all = levels_of(problem.tree);
  double sum = 0;
  std::vector<double> saved;
  const int heights = static_cast<int>(all.size());
  for (Rank rank = 0; rank < problem.graph.size(); ++rank) {
    const auto price = [&](const RankEdge& edge, int height) {
      const auto& own = levels[problem.need[rank] * needs + problem.need[edge.to]];
      return own.empty() ? 0 : edge_price(edge, own[height].smallest);
    };
    for (const RankEdge& edge : problem.graph.edges(rank))
      if (heights > 0) sum += price(edge, heights - 1);
    for (int h = 0; h + 1 < heights; ++h) {
      saved.clear();
      for (const RankEdge& edge : problem.graph.edges(rank))
        saved.push_back(price(edge, h + 1) - price(edge, h));
      const auto kept = std::min<std::ptrdiff_t>(std::ssize(saved), all[h].sizes.front() - 1);
      std::partial_sort(saved.begin(), saved.begin() + kept, saved.end(), std::greater<>());
      sum -= std::accumulate(saved.begin(), saved.begin() + kept, 0.0);
    }
  }
  return sum / 2;  // each edge stands at both of its ends
}

double max_inside(const RankGrid& grid, const std::vector<double>& weight, int size) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < grid.axes.size(); ++i)
    if (weight[i] > 0 && grid.axes[i].size > 1) axes.push_back(i);
  if (axes.empty() || size == 1) return 0;
  // The axes that keep most for a factor of the size first: they fill groups.
  const auto density = [&](size_t i) {
    const int side = std::min(size, grid.axes[i].size);
    return weight[i] * sends_a_rank(grid.axes[i], side) / std::log(side);
  };
  std::stable_sort(axes.begin(), axes.end(),
                   [&](size_t a, size_t b) { return density(a) > density(b); });
  std::vector<Slope> slopes;
  add_slopes(grid.axes[axes[0]], weight[axes[0]], size, slopes);
  Curve joint = axis_curve(grid.axes[axes[0]], weight[axes[0]], size);
  int64_t ranks = grid.axes[axes[0]].size;
  for (size_t i = 1; i < axes.size(); ++i) {
    const GridAxis& axis = grid.axes[axes[i]];
    const Curve own = axis_curve(axis, weight[axes[i]], size);
    add_slopes(axis, weight[axes[i]], size, slopes);
    ranks = std::min<int64_t>(ranks * axis.size, size);
    const auto bound = [&](int k) {
      return k == 1 ? 0 : std::min(PairBound(joint, own, k).value(), entropy_bound(slopes, k));
    };
    joint = i + 1 < axes.size() ? curve(static_cast<int>(ranks), bound)
                                : Curve{{1, size, bound(static_cast<int>(ranks))}};
  }
  return joint.back().maximum;
}

namespace {

/// The most that equal groups of all ranks keep inside.
///
/// Part of the traffic of an axis is bounded by the entropies and eigenvalues of all axes together,
/// and the rest by how groups cut the lines of that axis. Every division of the traffic gives a
/// bound, which is convex in it.
class FullGroupsBound {
 public:
  FullGroupsBound(const RankGrid& grid, const std::vector<double>& weight, int size)
      : grid_(grid), weight_(weight), size_(size), share_(weight.size(), 1.0) {
    for (const GridAxis& axis : grid.axes)
      by_parts_.push_back(max_sends_inside(axis, grid.size(), size));
    best_ = value(share_);
    constexpr int kRounds = 2;
    for (int round = 0; round < kRounds; ++round)
      for (size_t axis = 0; axis < share_.size(); ++axis) improve(axis);
  }
  double value() const { return best_; }

 private:
  double value(const std::vector<double>& share) const {
    std::vector<double> joint = weight_;
    double sum = 0;
    for (size_t i = 0; i < joint.size(); ++i) {
      joint[i] *= share[i];
      sum += (1 - share[i]) * weight_[i] * by_parts_[i];
    }
    double inside = grid_.size() * std::min(max_inside(grid_, joint, size_),
                                            eigenvalue_bound(grid_, joint, size_));
    if (const auto of_set = max_sends_of_set(grid_, joint, size_))
      inside = std::min(inside, *of_set * (grid_.size() / size_));
    return sum + inside;
  }
  void improve(size_t axis) {
    const int side = std::min(size_, grid_.axes[axis].size);
    const double alone = grid_.size() * sends_a_rank(grid_.axes[axis], side);
    constexpr double kRounding = 1e-9;
    if (by_parts_[axis] >= alone * (1 - kRounding)) return;  // no line need be cut
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      std::vector<double> changed = share_;
      changed[axis] = share;
      const double now = value(changed);
      if (now >= best_) continue;
      best_ = now;
      share_ = changed;
    }
  }

  const RankGrid& grid_;
  const std::vector<double>& weight_;
  int size_;
  std::vector<double> by_parts_;  // by axis: sends inside
  std::vector<double> share_;     // by axis: what is bounded by all axes together
  double best_ = 0;
};

}  // namespace

GridBound::GridBound(const RankGrid& grid, const std::vector<TreeLevel>& levels) {
  if (levels.empty()) return;
  const int ranks = grid.size();
  for (const GridAxis& axis : grid.axes)
    all_ += ranks * send_price(axis, levels.back().smallest) * sends_a_rank(axis, axis.size);
  for (size_t h = 0; h + 1 < levels.size(); ++h) {
    Level& level = levels_.emplace_back();
    for (const GridAxis& axis : grid.axes)
      level.saved.push_back(send_price(axis, levels[h + 1].smallest) -
                            send_price(axis, levels[h].smallest));
    const std::vector<int>& sizes = level.sizes = levels[h].sizes;
    if (sizes.front() == sizes.back() && sizes.front() * std::ssize(sizes) == ranks) {
      level.largest = FullGroupsBound(grid, level.saved, sizes.front()).value();
      continue;
    }
    int left = ranks, last = 0;
    double inside = 0;
    for (int size : sizes) {
      if (size != last) inside = max_inside(grid, level.saved, std::min(size, ranks));
      level.largest += std::min(left, size) * inside;
      left -= std::min(left, size);
      last = size;
    }
  }
}

double GridBound::value() const {
  double value = all_;
  for (const Level& level : levels_) value -= level.largest;
  return value;
}

void GridBound::improve(const RankGrid& grid, const DeviceTree& tree,
                        const std::vector<Place>& places) {
  constexpr double kRounding = 1e-9;
  RankGrid by_position = grid;
  by_position.ranks.clear();
  for (size_t h = 0; h < levels_.size(); ++h) {
    Level& level = levels_[h];
    const std::vector<Place> group = tree.groups(static_cast<int>(h) + 1);
    double reached = 0;
    for (size_t i = 0; i < grid.axes.size(); ++i)
      for (const RankTraffic& sent : axis_traffic(by_position, static_cast<int>(i)))
        if (group[places[sent.from]] == group[places[sent.to]]) reached += level.saved[i];
    if (reached >= level.largest * (1 - kRounding)) continue;
    level.largest =
        std::min(level.largest, max_inside_of_groups(grid, level.saved, level.sizes, reached));
  }
}

double grid_bound(const RankGrid& grid, const std::vector<TreeLevel>& levels) {
  return GridBound(grid, levels).value();
}

}  // namespace tessera
