// The graph that a draft describes.
#pragma once

#include "compiler/rewrite/internal/draft.h"

namespace tessera {

/// The graph with all changes: names, roles, regions, inputs, variables and outputs are kept, and
/// an origin that names a replaced op names the op that makes its value now. What is computed again
/// stands before the first op of the backward that needs it, with the role backward; the first
/// computation is left out where only the backward reads it, and the second one has its name.
///   time  O(ops)
RewrittenGraph graph_of(const GraphDraft& draft);

}  // namespace tessera
