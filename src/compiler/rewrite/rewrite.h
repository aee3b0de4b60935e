// The passes that rewrite the serial graph before it is sharded. This module knows graphs, marks
// and stages; it knows no placements and no programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "compiler/rewrite/internal/draft.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/mark.h"
#include "sharding/propagation/mesh_assignment.h"

namespace tessera {

/// A pass over the serial graph. Its position in the table is its position in the order. All passes
/// are optional: without one the result computes the same.
struct GraphPass {
  std::string_view name;
  void (*run)(GraphDraft& draft);
  std::vector<std::string_view> needs = {};     // passes before it that must run, too
  std::vector<std::string_view> excludes = {};  // passes that must not run, too
};

/// fold, algebra, cse, dead-code, recompute.
std::span<const GraphPass> graph_passes();

/// The passes of `table` that are not in `disabled`, in order. Other names in `disabled` are
/// ignored.
///   throws  UserError (78) when one of them needs a pass that is disabled, or excludes another
///   one;
///           InternalError when one needs a pass that does not stand before it
std::vector<const GraphPass*> enabled_passes(std::span<const GraphPass> table,
                                             const std::vector<std::string>& disabled);

/// What one pass did.
struct GraphPassReport {
  std::string_view name;
  Seconds time{0};
  std::vector<std::string>
      changes;  // a line each: "y is x", "c = constant() {...}", "z is dropped"
};

struct Rewritten {
  RewrittenGraph made;
  std::vector<GraphPassReport> passes;  // those that ran, in order
};

/// Runs the passes, again and again until none of them changes anything.
///
///   requires  `graph` is verified
///   ensures   check_rewritten(graph, result); every op has the bits that it had, under every plan;
///             a second rewrite changes nothing; the same inputs give the same result
///   time      O(ops) a round; the last one changes nothing
Rewritten rewrite(const Graph& graph, const RewriteBounds& bounds,
                  std::span<const GraphPass* const> passes);

/// By op: must it stay, so that every mark names what it named? Those are the ops that a mark with
/// a placement names, or whose results it names, and the first op that a mark without one names.
std::vector<bool> ops_kept_by(const Graph& graph, const std::vector<Mark>& marks);

/// The assignment of the ops and values that are left.
MeshAssignment assignment_after(const MeshAssignment& before, const RewrittenGraph& made);

/// Checks what every rewrite preserves: the inputs, the outputs by name and type, the variables
/// with their types and initializers, and whether they change. A variable that a pass adds has an
/// origin whose source is a value of `before`, from which a checkpoint without it can restore it.
///   throws  InternalError that names the first offence
void check_rewritten(const Graph& before, const Graph& after);

}  // namespace tessera
