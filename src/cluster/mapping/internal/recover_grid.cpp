#include "cluster/mapping/internal/recover_grid.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace tessera {
namespace {

constexpr int kMaxAxes = 8;

/// What an edge carries, which tells the axes apart.
using EdgeWeight = std::pair<double, double>;
EdgeWeight weight_of(const RankEdge& edge) {
  return {edge.bytes, edge.messages};
}

/// Sets of ranks that are joined.
class JoinedRanks {
 public:
  explicit JoinedRanks(int ranks) : parent_(ranks) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int rank) {
    while (parent_[rank] != rank) rank = parent_[rank] = parent_[parent_[rank]];
    return rank;
  }
  void join(int a, int b) { parent_[find(a)] = find(b); }

 private:
  std::vector<int> parent_;
};

/// The sets of ranks that edges of some axes connect.
JoinedRanks joined_by(const RankGraph& graph, const std::function<bool(const RankEdge&)>& counts) {
  JoinedRanks joined(graph.size());
  for (Rank rank = 0; rank < graph.size(); ++rank)
    for (const RankEdge& edge : graph.edges(rank))
      if (rank < edge.to && counts(edge)) joined.join(rank, edge.to);
  return joined;
}

/// The neighbors of a rank along one axis.
std::vector<Rank> neighbors(const RankGraph& graph, Rank rank, const EdgeWeight& weight) {
  std::vector<Rank> found;
  for (const RankEdge& edge : graph.edges(rank))
    if (weight_of(edge) == weight) found.push_back(edge.to);
  return found;
}

/// The ranks of the line through a rank along one axis, in their order, from the end of a chain.
std::vector<Rank> line_through(const RankGraph& graph, Rank rank, const EdgeWeight& weight) {
  std::vector<Rank> members{rank};
  std::vector<bool> is_in(graph.size(), false);
  is_in[rank] = true;
  for (size_t i = 0; i < members.size(); ++i)
    for (Rank next : neighbors(graph, members[i], weight))
      if (!is_in[next]) {
        is_in[next] = true;
        members.push_back(next);
      }
  const auto end = std::ranges::find_if(
      members, [&](Rank member) { return neighbors(graph, member, weight).size() == 1; });
  Rank at = end == members.end() ? members.front() : *end;
  std::vector<Rank> line;
  while (at >= 0) {
    line.push_back(at);
    is_in[at] = false;
    Rank next = -1;
    for (Rank neighbor : neighbors(graph, at, weight))
      if (is_in[neighbor]) next = neighbor;
    at = next;
  }
  return line;
}

/// The axis of a line of `size` ranks. Of up to 3 ranks all patterns are alike except for what they
/// send.
GridAxis axis_of(const RankGraph& graph, const std::vector<Rank>& line, const EdgeWeight& weight) {
  // An axis has whole bytes; edges have weighted ones.
  constexpr double kScale = 1024;
  GridAxis axis{.name = "",
                .size = static_cast<int>(line.size()),
                .bytes = Bytes(std::llround(weight.first * kScale)),
                .messages = weight.second * kScale,
                .weight = 1 / kScale};
  const auto ends_neighbors = std::ssize(neighbors(graph, line.front(), weight));
  if (ends_neighbors == axis.size - 1)
    axis.pattern = AxisPattern::kAllPairs;
  else
    axis.pattern = ends_neighbors == 2 ? AxisPattern::kRing : AxisPattern::kChain;
  // All but rings send in both directions over an edge.
  if (axis.pattern != AxisPattern::kRing) axis.weight /= 2;
  return axis;
}

bool are_alike(const GridAxis& a, const GridAxis& b) {
  return a.size == b.size && a.pattern == b.pattern && a.bytes == b.bytes &&
         a.messages == b.messages && a.weight == b.weight;
}

class Recovery {
 public:
  explicit Recovery(const RankGraph& graph) : graph_(graph) {
    for (Rank rank = 0; rank < graph.size() && weights_.size() <= kMaxAxes; ++rank)
      for (const RankEdge& edge : graph.edges(rank))
        weights_.try_emplace(weight_of(edge), static_cast<int>(weights_.size()));
  }

  std::optional<RankGrid> run() {
    if (weights_.empty() || weights_.size() > kMaxAxes) return std::nullopt;
    JoinedRanks all = joined_by(graph_, [](const RankEdge&) { return true; });
    std::map<int, int> copies;  // by one of its ranks: its number
    for (Rank rank = 0; rank < graph_.size(); ++rank)
      copies.try_emplace(all.find(rank), static_cast<int>(copies.size()));
    for (const auto& [root, copy] : copies)
      if (!add_axes_of(root)) return std::nullopt;
    if (copies.size() > 1)
      grid_.axes.insert(grid_.axes.begin(), {.name = "copy",
                                             .size = static_cast<int>(copies.size()),
                                             .bytes = Bytes(0),
                                             .messages = 0});
    if (grid_.size() != graph_.size()) return std::nullopt;
    for (Rank rank = 0; rank < graph_.size(); ++rank)
      position_.push_back(copies.at(all.find(rank)));
    for (const auto& [weight, axis] : weights_) add_coordinates(weight, axis);
    return is_recovered() ? std::optional(grid_) : std::nullopt;
  }

 private:
  /// Adds the lines through a rank; false when they differ from those of other copies.
  bool add_axes_of(Rank root) {
    const bool is_first = lines_.empty();
    std::vector<GridAxis> axes(weights_.size());
    for (const auto& [weight, number] : weights_) {
      lines_[weight].push_back(line_through(graph_, root, weight));
      axes[number] = axis_of(graph_, lines_[weight].back(), weight);
      axes[number].name = std::to_string(number);
    }
    if (is_first) grid_.axes = axes;
    return std::ranges::equal(axes, grid_.axes, are_alike);
  }

  /// Appends the coordinate of one axis to the positions.
  void add_coordinates(const EdgeWeight& weight, int axis) {
    JoinedRanks layer =
        joined_by(graph_, [&](const RankEdge& edge) { return weight_of(edge) != weight; });
    std::vector<int> at(graph_.size(), 0);
    for (const std::vector<Rank>& line : lines_.at(weight))
      for (size_t i = 0; i < line.size(); ++i) at[layer.find(line[i])] = static_cast<int>(i);
    int stride = 1;
    for (size_t i = grid_.axes.size() - weights_.size() + axis + 1; i < grid_.axes.size(); ++i)
      stride *= grid_.axes[i].size;
    offsets_.resize(graph_.size(), 0);
    for (Rank rank = 0; rank < graph_.size(); ++rank)
      offsets_[rank] += stride * at[layer.find(rank)];
  }

  /// Sets the ranks by position, and compares the traffic of the grid with the graph.
  bool is_recovered() {
    int ranks_of_copy = 1;
    for (size_t i = grid_.axes.size() - weights_.size(); i < grid_.axes.size(); ++i)
      ranks_of_copy *= grid_.axes[i].size;
    grid_.ranks.assign(graph_.size(), -1);
    for (Rank rank = 0; rank < graph_.size(); ++rank) {
      Rank& at = grid_.ranks[position_[rank] * ranks_of_copy + offsets_[rank]];
      if (at >= 0) return false;
      at = rank;
    }
    MappingInput input;
    input.grid = grid_;
    const RankGraph made(graph_.size(), all_traffic(input));
    for (Rank rank = 0; rank < graph_.size(); ++rank)
      if (!std::ranges::equal(made.edges(rank), graph_.edges(rank), is_same)) return false;
    return true;
  }
  static bool is_same(const RankEdge& a, const RankEdge& b) {
    constexpr double kRounding = 1e-9;
    return a.to == b.to && std::abs(a.bytes - b.bytes) <= kRounding * (1 + b.bytes) &&
           std::abs(a.messages - b.messages) <= kRounding * b.messages;
  }

  const RankGraph& graph_;
  std::map<EdgeWeight, int> weights_;                           // of each axis, and its number
  std::map<EdgeWeight, std::vector<std::vector<Rank>>> lines_;  // one of each copy
  RankGrid grid_;
  std::vector<int> position_;  // by rank: its copy
  std::vector<int> offsets_;   // by rank: its position in its copy
};

}  // namespace

std::optional<RankGrid> recover_grid(const RankGraph& graph) {
  return Recovery(graph).run();
}

}  // namespace tessera
