#include <algorithm>
#include <functional>
#include <limits>

#include "cluster/mapping/internal/grid.h"
#include "cluster/mapping/internal/methods.h"

namespace tessera {
namespace {

using Box = std::vector<int>;  // by axis: its side

/// By height, from 1: the children of each node; empty when they differ.
std::vector<int> uniform_fans(const DeviceTree& tree) {
  std::vector<int> fan(tree.height() + 1, 0);
  for (const DeviceTree::Node& node : tree.nodes()) {
    const int children =
        node.children.empty() ? node.size() : static_cast<int>(node.children.size());
    int& known = fan[node.height];
    if (known != 0 && known != children) return {};
    known = children;
  }
  fan.erase(fan.begin());
  std::vector<int> size;  // by height, of a node
  for (int& children : fan) {
    children = std::max(children, 1);
    size.push_back(children * (size.empty() ? 1 : size.back()));
  }
  for (const DeviceTree::Node& node : tree.nodes())
    if (node.size() != size[node.height - 1]) return {};
  return fan;
}

/// All ways to use n children of each node that the places are as many as the ranks.
std::vector<std::vector<int>> used_fans(const std::vector<int>& fan, int ranks) {
  std::vector<std::vector<int>> found;
  std::vector<int> used(fan.size(), 1);
  const std::function<void(size_t, int)> choose = [&](size_t h, int rest) {
    if (h == fan.size()) {
      if (rest == 1) found.push_back(used);
      return;
    }
    for (int children = std::min(fan[h], rest); children >= 1; --children) {
      if (rest % children != 0) continue;
      used[h] = children;
      choose(h + 1, rest / children);
    }
  };
  choose(0, ranks);
  return found;
}

/// All boxes of a volume whose sides divide the axes.
std::vector<Box> boxes_of(const RankGrid& grid, int volume) {
  std::vector<Box> found;
  Box box(grid.axes.size(), 1);
  const std::function<void(size_t, int)> choose = [&](size_t axis, int rest) {
    if (axis == box.size()) {
      if (rest == 1) found.push_back(box);
      return;
    }
    for (int side = 1; side <= std::min(rest, grid.axes[axis].size); ++side) {
      if (rest % side != 0 || grid.axes[axis].size % side != 0) continue;
      box[axis] = side;
      choose(axis + 1, rest / side);
    }
  };
  choose(0, volume);
  return found;
}

bool divides(const Box& inner, const Box& outer) {
  for (size_t i = 0; i < inner.size(); ++i)
    if (outer[i] % inner[i] != 0) return false;
  return true;
}

/// A chain of nested boxes, one for each height, and its cost.
struct Chain {
  double cost = std::numeric_limits<double>::infinity();
  std::vector<Box> boxes;
};

/// Over all chains whose boxes have the volumes of the heights. `links` by height.
Chain best_chain(const RankGrid& grid, const std::vector<int>& fan,
                 const std::vector<LinkPrice>& links) {
  std::vector<Chain> chains{{0, {Box(grid.axes.size(), 1)}}};
  int volume = 1;
  for (size_t h = 0; h < fan.size(); ++h) {
    volume *= fan[h];
    std::vector<Chain> next;
    for (const Box& box : boxes_of(grid, volume)) {
      const Chain* best = nullptr;
      double smallest = std::numeric_limits<double>::infinity();
      for (const Chain& chain : chains) {
        if (!divides(chain.boxes.back(), box)) continue;
        double cost = chain.cost;
        for (size_t i = 0; i < box.size(); ++i)
          cost += send_price(grid.axes[i], links[h]) *
                  (sends_a_rank(grid.axes[i], box[i]) -
                   sends_a_rank(grid.axes[i], chain.boxes.back()[i]));
        if (cost >= smallest) continue;
        smallest = cost;
        best = &chain;
      }
      if (!best) continue;
      next.push_back(*best);
      next.back().cost = smallest;
      next.back().boxes.push_back(box);
    }
    chains = std::move(next);
  }
  Chain best;
  for (Chain& chain : chains)
    if (chain.cost < best.cost) best = std::move(chain);
  return best;
}

/// The place of each position of the grid: at each height the boxes below lie row by row.
Places fill(const DeviceTree& tree, const RankGrid& grid, const std::vector<int>& fan,
            const Chain& chain) {
  std::vector<Place> stride(fan.size(), 1);  // places between two children of one node
  for (const DeviceTree::Node& node : tree.nodes()) {
    const int children =
        node.children.empty() ? node.size() : static_cast<int>(node.children.size());
    stride[node.height - 1] = node.size() / children;
  }
  Places places(grid.size(), 0);
  for (int position = 0; position < grid.size(); ++position) {
    int rest = position;
    std::vector<int> child(fan.size(), 0), radix(fan.size(), 1);
    for (size_t i = grid.axes.size(); i-- > 0;) {
      const int at = rest % grid.axes[i].size;
      rest /= grid.axes[i].size;
      for (size_t h = 0; h < fan.size(); ++h) {
        const int inner = chain.boxes[h][i], outer = chain.boxes[h + 1][i];
        child[h] += radix[h] * (at % outer / inner);
        radix[h] *= outer / inner;
      }
    }
    for (size_t h = 0; h < fan.size(); ++h) places[position] += stride[h] * child[h];
  }
  return places;
}

}  // namespace

std::optional<Places> map_boxes(const MappingProblem& problem, const RankGrid& grid,
                                const std::vector<Rank>& rank) {
  const DeviceTree& tree = problem.tree;
  if (!fit_everywhere(problem)) return std::nullopt;
  const std::vector<int> fan = uniform_fans(tree);
  if (fan.empty()) return std::nullopt;
  std::vector<LinkPrice> links(fan.size());
  for (const DeviceTree::Node& node : tree.nodes())
    if (node.size() > 1 && node.begin == 0)
      links[node.height - 1] = tree.link(node.begin, node.end - 1);
  Chain best;
  std::vector<int> best_fan;
  for (const std::vector<int>& used : used_fans(fan, grid.size())) {
    Chain chain = best_chain(grid, used, links);
    if (chain.cost >= best.cost) continue;
    best = std::move(chain);
    best_fan = used;
  }
  if (best.boxes.empty()) return std::nullopt;
  const Places by_position = fill(tree, grid, best_fan, best);
  Places places(grid.size());
  for (int position = 0; position < grid.size(); ++position)
    places[rank[position]] = by_position[position];
  return places;
}

}  // namespace tessera
