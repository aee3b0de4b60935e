// Matrix products taken apart with the exchange before or behind them, so that one chunk travels
// while another is computed. This stage knows instructions and prices; when an exchange begins is
// the business of those that come after it.
#pragma once

#include <cstdint>
#include <string>

#include "lower/program.h"
#include "plan/plan.h"

namespace tessera {

/// What a product in chunks is priced with, beside the links (ReshardOptions).
struct CollectiveMatmulCost {
  double flops_per_second = 2e10;  // of one rank
  double bytes_per_second = 1e10;  // of its memory: copies of chunks
  Seconds kernel{2e-6};            // that each further kernel loses
};

struct CollectiveMatmulOptions {
  int64_t chunks = 1;  // 1: no product is taken apart; more: into so many, or the next smaller
                       // number that its shapes allow
  CollectiveMatmulCost cost = {};
};

/// Parts of a product and its exchange, of one chunk.
struct ChunkTimes {
  Seconds exchange{0};
  Seconds kernels{0};
  Seconds copies{0};  // of all chunks together: out of the tensor that is cut, and into the one
                      // that is put together
};

/// Time of `chunks` of them: all but the first exchange (behind a product: the last) run while a
/// kernel does.
///
///     t(c) = copies + exchange + (c - 1) max(exchange, kernels) + kernels
///
/// The exchange of a chunk costs its latencies anew and 1/c of the bytes (reshard/reshard.h,
/// price); its kernels 1/c of the work and a further CollectiveMatmulCost::kernel each. So t(c) -
/// t(1) = copies + (c - 1) (latency + kernel loss) - (1 - 1/c) min(exchange, kernels of the whole).
///   source   Wang et al., Overlap communication with dependent computation via decomposition,
///   ASPLOS 2023
Seconds decomposed_time(int64_t chunks, const ChunkTimes& of_chunk);

/// Takes products (kernel dot_general) apart where an operand is all-gathered just before, or where
/// the addends that they make are reduce-scattered or all-reduced just after. What follows at once,
/// such as the all-gather of a sum in two steps, goes along, and so do products whose results are
/// added up before.
///
///     h [*, *] = all-gather(h)                      h, chunks 0 and 1 = take_chunk(h)
///     y = dot_general(h [*, *], w)                  h [*, *], chunk 0 = all-gather; y, chunk 0 =
///     dot_general
///                                                   h [*, *], chunk 1 = all-gather; y, chunk 1 =
///                                                   dot_general y = join_chunks(y, chunks 0 and
///                                                   1)
///
/// A chunk is one part of what every rank has (Chunk in tasks/task_graph.h), so all links are
/// busy with each, and no rank does anything in another order than the others. Only a dim is cut
/// that one operand has and the result keeps: sums stay whole, and each element is the same sum of
/// the same products. All products that read what is gathered, and that could run with the first of
/// them, are cut with it; other readers get it put together.
///
///   requires  the order of the instructions is final; places of the arena are not planned
///   ensures   the registers that others read are there as before; a product is part of one such
///   change at most, first as reader of
///             what is gathered; the same inputs give the same result
///   leaves    as they are: variables, whose gathers may begin long before
///   (lower/passes/prefetch.h); products in regions; those with operands that are divided in
///   windows or chunks; a dim that blocks and chunks do not
///             divide evenly (uneven parts); results that are variables; exchanges between meshes,
///             of another pass, or of the optimizer's sums of gradients
///   returns   a line for each product with such an exchange, of the first micro-batch: what was
///   chosen, and the times time      O(n) for n instructions, and prices of each different exchange
std::string decompose_collective_matmuls(Program& program, const CollectiveMatmulOptions& options,
                                         const ReshardOptions& links);

}  // namespace tessera
