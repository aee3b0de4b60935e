// The choice between keeping results of the forward and computing them again, as numbers: one small
// problem for each layer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/solver/problem.h"
#include "base/units.h"
#include "ir/graph/graph.h"

namespace tessera {

/// What a choice under a limit of bytes has to know beside the graph.
struct RecomputeTerms {
  std::vector<int> stages;   // by op
  std::vector<int> devices;  // by stage: those of one number share their memory; from 0
  /// What a rank of `stage` holds of the value until the backward, of all micro-batches in flight.
  std::function<Bytes(ValueId value, int stage)> kept_bytes;
  std::vector<Seconds> cost = {};  // by op: of computing it again
  Bytes limit{0};                  // of each device
  /// Of wide blocks (compiler/rewrite/internal/recompute_pareto_front.h); it takes seconds.
  bool solves_wide = true;
};

/// The decisions about the results of one layer in one stage, or of the ops between two layers. A
/// node is a result, or an op of several results.
///
///   strategies  of a result: it is not needed by the backward; it is kept; it is computed again.
///               Of a result from outside of the block the first two. Of an op: it is computed
///               once; again
///   forbidden   to compute an op again without its operands
struct RecomputeBlock {
  struct Node {
    OpId op = {};  // that its last strategy computes again; invalid for a result from outside, and
                   // for one of several results of an op
    std::vector<solver::Cost> costs = {};
    std::vector<solver::Usage> usages = {};
  };
  struct Edge {
    int32_t a = 0, b = 0;
    std::vector<solver::Cost> costs;
  };
  int device = 0;
  std::vector<Node> nodes = {};
  std::vector<Edge> edges = {};

  /// Do both have the same numbers? Then they have the same solutions.
  bool is_identical(const RecomputeBlock& other) const;
};

struct RecomputeBlocks {
  std::vector<RecomputeBlock> blocks;
  std::vector<int64_t> fixed;  // by device: bytes that are kept whatever is chosen
  double seconds_of_cost = 1;  // the unit of solver::Cost in the blocks
};

/// Divides the choice by layers (ir/graph/repeated_layers.h). A result that another layer or
/// another stage reads is never computed again, so that the backward of a layer needs no other
/// layer's results than those that are kept: at most one layer is in memory beside what is kept.
///
///   kept     a result that the backward reads; one that an op that is computed again reads; on the
///            stage that receives it, one of another stage. Of a result that is kept because
///            several blocks may need it to compute again, all blocks together count it once, and
///            always
///   time     O(ops + operands)
RecomputeBlocks recompute_blocks(const Graph& graph, const RecomputeTerms& terms);

}  // namespace tessera
