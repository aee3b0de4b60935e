// Common subexpressions: an op that repeats another one is dropped, and its readers read the
// results of that one.
#pragma once

#include "rewrite/draft.h"

namespace tessera {

/// Merges ops of one kind with equal attributes (compared by bits: 0.0 is not -0.0) and equal
/// operands. A random op has its key among its attributes: equal keys give equal numbers.
///
/// Merging must not make memory larger, send more, or tie the placements of parts of the model that
/// have nothing to do with each other. So two ops are merged only when
///
///   - they have one role and one stage: nothing lives from forward to backward, or is sent to
///     another mesh, because of it
///   - they are in one layer: their names agree up to the last component that is a number
///     ("blocks.3.attn.q" and "blocks.3.ffn.up"), or in the scope that comes first when there is
///     none
///   - constants, iotas and broadcasts, which every mesh and placement computes for itself, are in
///     the same innermost scope ("blocks.3.attn.q.rotary.x" and "blocks.3.attn.q.rotary.y")
///   - the results of the first are still alive at the second, whose memory is then saved
///
///   ensures  a second run changes nothing
///   leaves   ops that are kept, results of the program, and ops with regions
///   time     O(ops)
void merge_common_subexpressions(GraphDraft& draft);

}  // namespace tessera
