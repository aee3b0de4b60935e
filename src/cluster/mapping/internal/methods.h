// The methods that find mappings of a problem.
#pragma once

#include <optional>

#include "cluster/mapping/internal/problem.h"

namespace tessera {

/// Branch and bound over all mappings, in which alike free devices count once.
///
///   start    a mapping that is known
///   returns  the best mapping; empty when the limit of steps came first
std::optional<Places> map_exactly(const MappingProblem& problem, const Places& start,
                                  int64_t max_steps);

/// The ranks in their order, each on the free place that costs least with the ranks before it.
///
///   quota  by need and type of places: the ranks of this need that take a place of this type
Places map_greedily(const MappingProblem& problem, std::vector<std::vector<int>> quota);

/// Recursive bisection along the tree, each by multilevel partitioning.
///
///   start    a mapping. Where some rank does not fit everywhere, the ranks on places of each type
///            are mapped by themselves, to places of this type.
///   sources  Pellegrini and Roman, Scotch, HPCN 1996; Karypis and Kumar, SIAM J. Sci. Comput.
///   20(1),
///            1998
Places map_by_bisection(const MappingProblem& problem, const Places& start);

/// The best of all nested boxes of the grid. `rank` by position of the grid.
///
///   requires  the traffic of the problem is that of the grid
///   returns   nothing when the tree has no uniform part for the ranks, or some rank does not fit
///             everywhere
std::optional<Places> map_boxes(const MappingProblem& problem, const RankGrid& grid,
                                const std::vector<Rank>& rank);

/// The best that a search finds among orders of the ranks: boxes of the grid inside of boxes, whose
/// sides need not divide anything, fill the places in the order of the tree.
///
///   max_priced  edges that are priced, at most
///   requires    as map_boxes
///   returns     nothing when some rank does not fit everywhere, or when the grid has many axes
std::optional<Places> map_orders(const MappingProblem& problem, const RankGrid& grid,
                                 const std::vector<Rank>& rank, int64_t max_priced);

/// Exchanges two ranks, or moves one to a free place, as long as the cost falls.
///
///   max_priced  edges that are priced, at most
///   returns     whether the cost fell
bool exchange(const MappingProblem& problem, Places& places, int64_t max_priced);

/// Exchanges of whole groups of ranks, from the outermost level inwards, and then of ranks.
bool exchange_groups(const MappingProblem& problem, Places& places, int64_t max_priced);

/// Simulated annealing: exchanges of two ranks, or moves to free places, which the less likely
/// happen the more the cost rises and the later it is. Only where links of one level are alike.
///
///   max_priced  edges that are priced, at most
///   returns     whether the cost fell
///   source      Kirkpatrick, Gelatt and Vecchi, Science 220, 1983
bool anneal(const MappingProblem& problem, Places& places, int64_t max_priced);

}  // namespace tessera
