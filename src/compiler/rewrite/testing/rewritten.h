// Runs passes over graphs in their text form. Test code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/rewrite/rewrite.h"
#include "ir/graph/graph.h"

namespace tessera::rewrite_testing {

/// The passes of the table with these names.
inline std::vector<const GraphPass*> passes_named(const std::vector<std::string_view>& names) {
  std::vector<const GraphPass*> passes;
  for (const GraphPass& pass : graph_passes())
    for (std::string_view name : names)
      if (pass.name == name) passes.push_back(&pass);
  return passes;
}

/// All passes of the table.
inline std::vector<const GraphPass*> all_passes() {
  return enabled_passes(graph_passes(), {});
}

inline Rewritten rewritten(std::string_view text, const std::vector<std::string_view>& passes,
                           const RewriteBounds& bounds = {}) {
  const Graph graph = parse_graph(text);
  verify(graph);
  Rewritten result = rewrite(graph, bounds, passes_named(passes));
  verify(result.made.graph);
  return result;
}

/// The text form of the graph after the passes.
inline std::string text_after(std::string_view text, const std::vector<std::string_view>& passes,
                              const RewriteBounds& bounds = {}) {
  return to_text(rewritten(text, passes, bounds).made.graph);
}

}  // namespace tessera::rewrite_testing
