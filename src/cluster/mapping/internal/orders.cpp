#include <algorithm>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "cluster/mapping/internal/methods.h"
#include "cluster/mapping/internal/uniform_links.h"

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

/// The edges of a problem, with the price of each on each level where links are uniform.
class EdgePrices {
 public:
  explicit EdgePrices(const MappingProblem& problem)
      : problem_(problem), links_(UniformLinks::from(problem.tree)) {
    for (Rank rank = 0; rank < problem.graph.size(); ++rank)
      for (const RankEdge& edge : problem.graph.edges(rank)) {
        if (edge.to < rank) continue;
        ends_.emplace_back(rank, edge.to);
        if (!links_) continue;
        for (const LinkPrice& link : links_->prices()) price_.push_back(edge_price(edge, link));
      }
  }
  int64_t edges() const { return std::ssize(ends_); }
  double cost(const Places& places) const {
    if (!links_) return places_cost(problem_, places);
    const size_t levels = links_->prices().size();
    double cost = 0;
    const double* price = price_.data();
    for (const auto& [a, b] : ends_) {
      cost += price[links_->level(places[a], places[b])];
      price += levels;
    }
    return cost;
  }

 private:
  const MappingProblem& problem_;
  std::optional<UniformLinks> links_;
  std::vector<std::pair<Rank, Rank>> ends_;
  std::vector<double> price_;  // by edge and level
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
      : problem_(problem),
        grid_(grid),
        rank_(rank),
        prices_(problem),
        priced_left_(max_priced),
        stream_(0x0de5, 0) {
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
    constexpr size_t kStarts = 4;
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
    constexpr int kMaxFruitless = 1500;
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
    switch (below(5)) {
      case 0:  // a box of which so many make up the one that was there, further out
        if (nesting.size() < kMaxSteps && step.factor > 2) {
          const int inner = 2 + below(step.factor - 2);
          const Step outer{step.axis, (step.factor + inner - 1) / inner};
          step.factor = inner;
          nesting.insert(nesting.begin() + at + 1 + below(nesting.size() - at), outer);
        }
        break;
      case 1:  // another factor
        step.factor = std::max(2, step.factor + (below(2) == 0 ? 1 : -1) * (1 + below(3)));
        break;
      case 2:  // a smaller box along another axis first
        if (nesting.size() < kMaxSteps) {
          const int axis = below(grid_.axes.size());
          if (grid_.axes[axis].size > 1)
            nesting.insert(nesting.begin() + at, {axis, 2 + below(grid_.axes[axis].size - 1)});
        }
        break;
      case 3: std::swap(step, nesting[below(nesting.size())]); break;
      default:
        if (nesting.size() > 1) nesting.erase(nesting.begin() + at);
    }
  }

  /// Adds what lacks to the whole grid, and leaves out what does nothing.
  void complete(Nesting& nesting) const {
    std::vector<int> side(grid_.axes.size(), 1);
    std::erase_if(nesting, [&](Step& step) {
      const int left = (grid_.axes[step.axis].size + side[step.axis] - 1) / side[step.axis];
      step.factor = std::min(step.factor, left);
      if (step.factor < 2) return true;
      side[step.axis] *= step.factor;
      return false;
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
    made.cost = prices_.cost(made.places);
    priced_left_ -= prices_.edges();
    return made;
  }

  /// The positions of the grid in the order of a nesting.
  std::vector<int> ordered(const Nesting& nesting) const {
    std::vector<Walk> walks;  // of each step
    std::vector<int> side(grid_.axes.size(), 1);
    for (const Step& step : nesting) {
      walks.push_back({step, side[step.axis]});
      side[step.axis] *= step.factor;
    }
    std::vector<int> at(grid_.axes.size(), 0), order;
    order.reserve(grid_.size());
    walk(walks, walks.size(), 0, at, order);
    return order;
  }
  /// A step of a nesting, and the side of the box before it.
  struct Walk {
    Step step;
    int side = 1;
  };
  /// Appends the positions of the box of the first `steps` steps that begins at `at`.
  void walk(const std::vector<Walk>& walks, size_t steps, int turns, std::vector<int>& at,
            std::vector<int>& order) const {
    if (steps == 0) {
      int position = 0;
      for (size_t axis = 0; axis < at.size(); ++axis) position += at[axis] * strides_[axis];
      order.push_back(position);
      return;
    }
    const auto& [step, side] = walks[steps - 1];
    const int begin = at[step.axis];
    for (int i = 0; i < step.factor; ++i) {
      const int box = turns % 2 == 0 ? i : step.factor - 1 - i;
      at[step.axis] = begin + box * side;
      if (at[step.axis] < grid_.axes[step.axis].size)
        walk(walks, steps - 1, turns + box, at, order);
    }
    at[step.axis] = begin;
  }

  static constexpr size_t kMaxSteps = 10;

  const MappingProblem& problem_;
  const RankGrid& grid_;
  const std::vector<Rank>& rank_;
  const EdgePrices prices_;
  int64_t priced_left_;
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
