// Collective matmuls, decomposed: a matmul and the exchange before or after it are done in chunks,
// so that one chunk is exchanged while another is computed. When an exchange is issued is decided
// by later passes.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/cost/cost_model.h"
#include "compiler/lower/internal/program.h"

namespace tessera {

/// Decomposes matmuls (kernel dot_general) where an operand is all-gathered just before, or where
/// the partial values that they compute are reduce-scattered or all-reduced just after. An exchange
/// that follows at once, such as the all-gather of an all-reduce in two steps, is decomposed too,
/// and so are matmuls whose results are added before.
///
///     h [*, *] = all-gather(h)           h chunk 0, h chunk 1 = take_chunk(h)
///     y = dot_general(h [*, *], w)       h [*, *] chunk 0 = all-gather(h chunk 0)
///                                        y chunk 0 = dot_general(h [*, *] chunk 0, w)
///                                        h [*, *] chunk 1 = all-gather(h chunk 1)
///                                        y chunk 1 = dot_general(h [*, *] chunk 1, w)
///                                        y = join_chunks(y chunk 0, y chunk 1)
///
/// A chunk is one part of what every rank has (Chunk in task_graph/tasks/task_graph.h), so every
/// chunk uses all links, and all ranks keep one order. Only a dim is divided that one operand has
/// and the result keeps: sums stay whole, and each element is the same sum of the same products.
/// All matmuls that read a gathered tensor, and that could run with the first of them, are
/// decomposed together; other readers get the joined tensor.
///
///   chunks    1: no matmul is decomposed; kAutoChunks: where it pays; another number: into n
///             chunks, or the next smaller number that the shapes allow
///   requires  the order of the instructions is final; arena offsets are not planned. The program
///             may be rolled: then a matmul of all micro-batches is decomposed once
///   ensures   the registers that others read exist as before; a matmul is part of one such change
///             at most, first as reader of a gathered tensor; the same inputs give the same result
///   leaves    variables, whose all-gathers may be prefetched long before
///   (compiler/lower/internal/passes/prefetch.h);
///             matmuls in regions; those with operands that are divided in windows or chunks; a dim
///             that blocks and chunks do not divide evenly; results that are variables; exchanges
///             between meshes, of another pass, or of the optimizer's sums of gradients
///   returns   a line for each matmul with such an exchange, of the first micro-batch: what was
///             chosen, and the times
///   time      O(n) for n instructions, and prices of each different exchange
std::string decompose_collective_matmuls(Program& program, int64_t chunks, const CostModel& cost);

}  // namespace tessera
