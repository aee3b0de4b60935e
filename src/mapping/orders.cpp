#include <algorithm>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "mapping/methods.h"

namespace tessera {
namespace {

/// Multiplies the side of a box along an axis. The box need not divide the axis.
struct Step {
  int axis = 0;
  int factor = 1;
};
/// Boxes of the grid, each of which holds the one before. Its last box holds the whole grid.
using Nesting = std::vector<Step>;

/// An order of the positions of a grid, the places that it gives by rank, and their cost.
struct Ordered {
  Nesting nesting;  // that it is, if it is one
  Places places;
  double cost = std::numeric_limits<double>::infinity();
};

/// Packs lines of positions into groups: each group has as many whole lines as it holds, and the
/// rest of it is a piece of a line, or smaller pieces which others left.
class LinePacking {
 public:
  /// `order` has the positions line by line.
  LinePacking(const std::vector<int>& order, int line) : order_(order), line_(line) {}

  /// The positions group by group, in groups of `size`.
  std::vector<int> run(int size) {
    while (made_.size() < order_.size()) {
      int left = std::min(size, static_cast<int>(order_.size() - made_.size()));
      for (; left >= line_ && next_ < order_.size(); left -= line_) {
        pieces_.push_back(next_line());
        take(pieces_.size() - 1, line_);
      }
      fill(left);
    }
    return std::move(made_);
  }

 private:
  using Piece = std::vector<int>;

  void fill(int left) {
    size_t all = 0;
    for (const Piece& piece : pieces_) all += piece.size();
    if (static_cast<int>(all) < left && next_ < order_.size()) pieces_.push_back(next_line());
    while (left > 0) {
      // The smallest piece that is enough; if none is, the smallest one.
      std::ranges::stable_sort(pieces_, {}, &Piece::size);
      const auto enough = std::ranges::find_if(
          pieces_, [left](const Piece& piece) { return std::ssize(piece) >= left; });
      left -= take(enough == pieces_.end() ? 0 : enough - pieces_.begin(), left);
    }
  }
  Piece next_line() {
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(next_);
    next_ += line_;
    return {begin, begin + line_};
  }
  /// Moves up to `count` positions of a piece into the group.
  int take(size_t piece, int count) {
    Piece& from = pieces_[piece];
    count = std::min(count, static_cast<int>(from.size()));
    made_.insert(made_.end(), from.begin(), from.begin() + count);
    from.erase(from.begin(), from.begin() + count);
    if (from.empty()) pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(piece));
    return count;
  }

  const std::vector<int>& order_;
  int line_;
  size_t next_ = 0;            // of `order_`: the first line that no group has
  std::vector<Piece> pieces_;  // of lines that groups divide
  std::vector<int> made_;
};

/// A local search over nestings. The ranks go box by box onto the places of the tree in their
/// order, each box in the reverse direction of the one before, so that neighbors stay close.
class OrderSearch {
 public:
  OrderSearch(const MappingProblem& problem, const RankGrid& grid, const std::vector<Rank>& rank,
              int64_t max_priced)
      : problem_(problem), grid_(grid), rank_(rank), priced_left_(max_priced), stream_(0x0de5, 0) {
    for (Rank r = 0; r < problem.graph.size(); ++r) edges_ += std::ssize(problem.graph.edges(r));
    for (const GridAxis& axis : grid.axes) {
      strides_.push_back(1);
      for (int& stride : strides_)
        if (&stride != &strides_.back()) stride *= axis.size;
    }
  }

  Places run() {
    std::vector<Ordered> starts = axis_orders();
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Ordered& a, const Ordered& b) { return a.cost < b.cost; });
    constexpr size_t kStarts = 3;
    starts.resize(std::min(starts.size(), kStarts));
    const int64_t share = priced_left_ / std::ssize(starts);
    Ordered best = std::move(best_packed_);
    for (Ordered& start : starts) {
      improve(start, priced_left_ - share);
      if (start.cost < best.cost) best = std::move(start);
    }
    return best.places;
  }

 private:
  /// All orders of the axes, each axis as a whole.
  std::vector<Ordered> axis_orders() {
    std::vector<int> order(grid_.axes.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<Ordered> found;
    do {
      Nesting nesting;
      for (int axis : order) nesting.push_back({axis, grid_.axes[axis].size});
      price_packed(nesting);
      found.push_back(priced(std::move(nesting)));
    } while (std::next_permutation(order.begin(), order.end()) && priced_left_ > 0);
    return found;
  }

  /// Packs the lines of the first axis into the groups of each height that cut some of them.
  void price_packed(const Nesting& nesting) {
    const int line = nesting.front().factor;
    std::vector<int> sizes;
    for (const DeviceTree::Node& node : problem_.tree.nodes())
      if (node.begin == 0 && node.size() > line && node.size() % line != 0)
        sizes.push_back(node.size());
    const std::vector<int> order = ordered(nesting);
    for (int size : sizes) {
      Ordered made = priced(LinePacking(order, line).run(size));
      if (made.cost < best_packed_.cost) best_packed_ = std::move(made);
    }
  }

  void improve(Ordered& best, int64_t priced_at_end) {
    constexpr int kMaxFruitless = 400;
    for (int fruitless = 0; fruitless < kMaxFruitless && priced_left_ > priced_at_end;) {
      Ordered next = priced(changed(best.nesting));
      fruitless = next.cost < best.cost ? 0 : fruitless + 1;
      if (next.cost <= best.cost) best = std::move(next);
    }
  }

  int below(size_t count) {
    return static_cast<int>(stream_.uniform(next_++) * static_cast<float>(count));
  }

  /// One or two random changes.
  Nesting changed(Nesting nesting) {
    for (int changes = 1 + below(2); changes > 0; --changes) change(nesting);
    return nesting;
  }
  void change(Nesting& nesting) {
    const int at = below(nesting.size());
    Step& step = nesting[at];
    switch (below(4)) {
      case 0:  // another factor
        step.factor = std::max(2, step.factor + (below(2) == 0 ? 1 : -1) * (1 + below(3)));
        break;
      case 1:  // a smaller box along another axis first
        if (nesting.size() < kMaxSteps) {
          const int axis = below(grid_.axes.size());
          if (grid_.axes[axis].size > 1)
            nesting.insert(nesting.begin() + at, {axis, 2 + below(grid_.axes[axis].size - 1)});
        }
        break;
      case 2: std::swap(step, nesting[below(nesting.size())]); break;
      default:
        if (nesting.size() > 1) nesting.erase(nesting.begin() + at);
    }
  }

  /// Adds what lacks to the whole grid, and leaves out what does nothing.
  void complete(Nesting& nesting) const {
    std::vector<int> side(grid_.axes.size(), 1);
    std::erase_if(nesting, [&](const Step& step) {
      const bool is_whole = side[step.axis] >= grid_.axes[step.axis].size;
      if (!is_whole) side[step.axis] *= step.factor;
      return is_whole || step.factor < 2;
    });
    for (int axis = 0; axis < std::ssize(side); ++axis) {
      const int size = grid_.axes[axis].size;
      if (side[axis] < size) nesting.push_back({axis, (size + side[axis] - 1) / side[axis]});
    }
  }

  Ordered priced(Nesting nesting) {
    complete(nesting);
    Ordered made = priced(ordered(nesting));
    made.nesting = std::move(nesting);
    return made;
  }
  Ordered priced(const std::vector<int>& order) {
    Ordered made;
    made.places.resize(grid_.size());
    for (int i = 0; i < std::ssize(order); ++i) made.places[rank_[order[i]]] = i;
    made.cost = places_cost(problem_, made.places);
    priced_left_ -= edges_;
    return made;
  }

  /// The positions of the grid in the order of a nesting.
  std::vector<int> ordered(const Nesting& nesting) const {
    std::vector<int> from;  // of each step: the side of the box before
    std::vector<int> side(grid_.axes.size(), 1);
    for (const Step& step : nesting) {
      from.push_back(side[step.axis]);
      side[step.axis] *= step.factor;
    }
    std::vector<std::pair<uint64_t, int>> keyed;
    for (int position = 0; position < grid_.size(); ++position) {
      uint64_t key = 0;
      int turns = 0;
      for (size_t s = nesting.size(); s-- > 0;) {
        const auto [axis, factor] = nesting[s];
        const int at = position / strides_[axis] % grid_.axes[axis].size / from[s] % factor;
        key = key * factor + (turns % 2 == 0 ? at : factor - 1 - at);
        turns += at;
      }
      keyed.emplace_back(key, position);
    }
    std::sort(keyed.begin(), keyed.end());
    std::vector<int> order;
    for (const auto& [key, position] : keyed) order.push_back(position);
    return order;
  }

  static constexpr size_t kMaxSteps = 10;

  const MappingProblem& problem_;
  const RankGrid& grid_;
  const std::vector<Rank>& rank_;
  int64_t priced_left_;
  int64_t edges_ = 0;
  std::vector<int> strides_;  // by axis
  RandomStream stream_;
  uint64_t next_ = 0;
  Ordered best_packed_;
};

}  // namespace

std::optional<Places> map_orders(const MappingProblem& problem, const RankGrid& grid,
                                 const std::vector<Rank>& rank, int64_t max_priced) {
  constexpr size_t kMaxAxes = 6;  // 720 orders
  if (grid.axes.empty() || grid.axes.size() > kMaxAxes || !fit_everywhere(problem))
    return std::nullopt;
  return OrderSearch(problem, grid, rank, max_priced).run();
}

}  // namespace tessera
