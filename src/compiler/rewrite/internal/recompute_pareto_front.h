// What the results of one layer that are kept may cost: the Pareto front of bytes and time.
#pragma once

#include <vector>

#include "base/solver/problem.h"
#include "compiler/rewrite/internal/recompute_blocks.h"

namespace tessera {

struct RecomputePoint {
  solver::Usage bytes = 0;
  solver::Cost cost = 0;
  solver::Assignment assignment = {};  // of the nodes of the block
};

/// Choices of a block by ascending bytes and descending cost, from the least bytes to the one that
/// computes nothing again.
///
///   ensures  of all choices that keep at most n bytes, the last point up to them costs at
///            most kFrontError more than the cheapest, if the block is narrow: if the nodes that
///            later ones need are few at each position, as in layers of models
///   wide     blocks: kFrontSolves points by the solver, each with the cost that it finds
///   time     narrow: nodes x states x points, by dynamic programming over the nodes in order, in
///            which a state is what later nodes have to know of earlier ones
///   solves_wide  false: of a wide block there is no point
std::vector<RecomputePoint> recompute_pareto_front(const RecomputeBlock& block,
                                                   bool solves_wide = true);

inline constexpr double kFrontError = 0.01;
inline constexpr int kFrontSolves = 8;

}  // namespace tessera
