// Lower bounds of the cost of all mappings of a problem.
//
// The cost is what it would be if all traffic passed the outermost level, less what each level h
// saves: (price at h + 1) - (price at h) for all traffic inside of the groups of h. The bounds
// limit what can be inside, for each level by itself. The price of a level is the least of its
// links, and of those further out, so they hold for different groups and for direct links.
//
// Of any traffic: a rank keeps at most its heaviest size - 1 edges inside of a group.
//
// Of grids: let A be a group, X a rank of it sampled at random, and k_i the ranks of A in the line
// of X along axis i. Then the sum of E[log k_i] is at most log |A|: log k_i is the entropy of X_i
// given the other coordinates (Shearer's inequality: Chung et al., J. Combin. Theory A 43(1),
// 1986). Also, lines of axis j through the points of one line of axis i share no rank, so E[k_j] <=
// |A| E[1 / k_i]. A linear program over the distributions of k_i, by its Lagrange multipliers,
// limits the sends inside of A. When all groups are equal, the eigenvalues of the grid limit them,
// too (Donath and Hoffman, IBM J. Res. Dev. 17(5), 1973).
#pragma once

#include "cluster/mapping/internal/problem.h"

namespace tessera {

/// One level of a tree.
struct TreeLevel {
  LinkPrice smallest;      // of links inside of its groups and further out, but not further in
  std::vector<int> sizes;  // of its groups, the largest first
};

/// From the inside out; the last one has the tree as its only group. Links between places of two
/// sets of types count. Empty when there are none.
std::vector<TreeLevel> levels_of(const DeviceTree& tree, const std::vector<bool>& from,
                                 const std::vector<bool>& to);
/// Of links between places of all types.
std::vector<TreeLevel> levels_of(const DeviceTree& tree);

/// A lower bound for the traffic of any graph. The price of an edge is that of links between places
/// on which its ends fit.
double edges_bound(const MappingProblem& problem);

/// A lower bound for the traffic of a grid.
class GridBound {
 public:
  GridBound(const RankGrid& grid, const std::vector<TreeLevel>& levels);

  double value() const;
  /// Improves it by configurations of groups (configurations.h), on each level on which a mapping
  /// saves less than the bound allows.
  ///   places  of a mapping, by position of the grid
  void improve(const RankGrid& grid, const DeviceTree& tree, const std::vector<Place>& places);

 private:
  struct Level {
    std::vector<double> saved;  // by axis: what a send inside of a group costs less than outside
    double largest = 0;         // that all groups save
    std::vector<int> sizes;     // of the groups, the largest first
  };

  double all_ = 0;             // the cost if all sends passed the outermost level
  std::vector<Level> levels_;  // from the inside out, without the outermost one
};
double grid_bound(const RankGrid& grid, const std::vector<TreeLevel>& levels);

/// No group of this size has more sends inside than so many a rank, weighted by axis.
double max_inside(const RankGrid& grid, const std::vector<double>& weight, int size);

}  // namespace tessera
