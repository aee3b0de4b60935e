// Dead code: ops that neither an output of the program nor the next value of a variable needs.
#pragma once

#include "compiler/rewrite/internal/draft.h"

namespace tessera {

/// Drops every op whose results nothing reads, from the last op to the first, so that what only
/// dropped ops read is dropped with them.
///
///   ensures  a second run changes nothing
///   leaves   ops that are kept. All ops of a graph without outputs and next values: nothing says
///            which of its values are wanted
///   time     O(ops)
void drop_dead_code(GraphDraft& draft);

}  // namespace tessera
