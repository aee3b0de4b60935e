// Chains of additions of numbers, such as the squares of a gradient norm, are reduced once.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/propagation/mark.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// Lets the additions of the optimizer that add numbers, one after the other, pass partial sums on,
/// where at least two of the operands are partial sums over an axis: each rank adds what it has,
/// and the total is reduced once. An operand that is whole counts at the first rank of the axis.
///
///     clip.sum = add(clip.w.sum {tp}, clip.b.sum)
///     clip.sum_1 = add(clip.sum, clip.v.sum {tp})       two all-reduces over tp
///     clip.sum {tp}, clip.sum_1 {tp}                    one, of clip.sum_1
///
/// The additions are associated in another order, so the last bits of a total may change.
///
///   requires  `sharded` is of propagate(graph, ..., marks)
///   leaves    marked tensors and ops, results of the program, next values of variables, numbers
///             that another op reads too, sums over micro-batches
///   returns   what was decided, a line each; "" for nothing
///   time      O(ops)
std::string reduce_sums_once(const Graph& graph, ShardedGraph& sharded,
                             const std::vector<Mark>& marks);

}  // namespace tessera
