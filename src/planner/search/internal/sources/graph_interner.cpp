#include "planner/search/internal/sources/graph_interner.h"

#include <utility>

namespace tessera {

std::shared_ptr<const Graph> GraphInterner::keep(Graph graph) {
  const uint64_t key = fingerprint(graph);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Graph>& kept = kept_[key];
  if (!kept) kept = std::make_shared<const Graph>(std::move(graph));
  return kept;
}

}  // namespace tessera
