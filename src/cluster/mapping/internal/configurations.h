// How much of the traffic of a grid stays inside of groups, by how they cut its lines.
#pragma once

#include "cluster/mapping/internal/problem.h"

namespace tessera {

/// No division of the ranks of the grid among groups of at most these sizes keeps more sends
/// inside, weighted by axis.
///
///   weight    by axis, not negative
///   sizes     of the groups, the largest first
///   reached   sends that some division keeps inside: the bound is improved until it is close
///   requires  the groups together have places for all ranks
///   time      limited
///
/// A group has a part of each line that it meets, and what a part of k ranks keeps is known. This
/// is a configuration linear program (Gilmore and Gomory, Operations Research 9(6), 1961): the
/// parts of each size that the lines are cut into are those from which the groups are put together.
/// Its columns are the ways to cut a line of each axis and the ways to put a group together. Every
/// price of a part of k ranks of an axis, which groups pay to lines, gives a bound: the best cut of
/// each line plus the best configuration of each group. The prices are improved by subgradient
/// steps (Camerini, Fratta and Maffioli, Mathematical Programming Study 3, 1975).
///
/// A configuration is a multiset of parts for each axis, whose sizes add up to that of the group.
/// The axes are coupled by what all sets of ranks meet: lines of axis j through the ranks of one
/// part of axis i are different ones, so no part is larger than the number of parts of any other
/// axis; and with the inequalities of bounds.h, by multipliers.
double max_inside_of_groups(const RankGrid& grid, const std::vector<double>& weight,
                            const std::vector<int>& sizes, double reached);

}  // namespace tessera
