#include "compiler/rewrite/internal/dead_code.h"

#include <algorithm>

namespace tessera {
namespace {

bool has_results(const Graph& graph) {
  return !graph.outputs().empty() ||
         std::ranges::any_of(graph.variables(),
                             [](const Variable& variable) { return variable.next.has_value(); });
}

}  // namespace

void drop_dead_code(GraphDraft& draft) {
  if (!has_results(draft.before())) return;
  for (int i = draft.op_count() - 1; i >= 0; --i) {
    const OpId op{i};
    if (!draft.is_present(op) || draft.is_kept(op)) continue;
    if (std::ranges::all_of(draft.outputs(op),
                            [&](ValueId value) { return draft.readers(value) == 0; }))
      draft.drop(op);
  }
}

}  // namespace tessera
