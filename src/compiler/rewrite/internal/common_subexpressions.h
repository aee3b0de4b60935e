// Common subexpressions: an op that repeats another one is dropped, and its readers read the
// results of that one.
#pragma once

#include "compiler/rewrite/internal/draft.h"

namespace tessera {

/// Merges ops of one kind with equal attributes (compared by bits: 0.0 is not -0.0) and equal
/// operands. A random op has its key among its attributes: equal keys give equal numbers.
///
/// Merging must not make memory larger, send more, or tie the placements of parts of the model that
/// have nothing to do with each other. So two ops are merged only when
///
///   - they have one role and one stage: nothing lives from forward to backward, or is sent to
///     another mesh, because of it
///   - the results of the first are still alive at the second, whose memory is then saved: what is
///     made for one layer is not alive in the next one, unless every layer reads it
///
/// Names do not count.
///
///   ensures  a second run changes nothing
///   leaves   ops that are kept, results of the program, and ops with regions
///   time     O(ops)
void merge_common_subexpressions(GraphDraft& draft);

}  // namespace tessera
