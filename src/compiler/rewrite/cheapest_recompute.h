// The results of the forward to compute again that cost least, where what is kept is limited.
#pragma once

#include <vector>

#include "compiler/rewrite/internal/recompute_blocks.h"

namespace tessera {

struct RecomputeChoice {
  std::vector<bool> ops;    // by op: is it computed again?
  std::vector<Bytes> kept;  // by device
  Seconds cost{0};          // of what is computed again, all devices together
  bool is_made = true;      // false: a block is wide, and terms.solves_wide is not set
};

/// The choice of least cost under which no device keeps more than terms.limit. Where even the least
/// that a device can keep is more, it keeps that.
///
///   layers  identical ones have one front of bytes and cost
///           (compiler/rewrite/internal/recompute_pareto_front.h).
///   The choice
///           between the points of all fronts is by dynamic programming over the groups of repeated
///           layers, of which a group takes at most two points. Then single layers move to other
///           points with the bytes that are left
///   gap     of a graph without layers: that of its front. Else what the two points of a group
///           leave out, which the test compares with an integer program
///   time    linear in the layers, beside one front for each kind of layer. Deterministic
///   source  the program is that of Jain et al., "Checkmate", MLSys 2020, restricted to results
///           that are computed again inside of their layer
RecomputeChoice cheapest_recompute(const Graph& graph, const RecomputeTerms& terms);

}  // namespace tessera
