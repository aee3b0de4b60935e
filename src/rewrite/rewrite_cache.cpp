#include "rewrite/rewrite_cache.h"

namespace tessera {

Rewritten RewriteCache::rewrite(const Graph& graph, const RewriteBounds& bounds,
                                std::span<const GraphPass* const> passes) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& found =
        entries_[{bounds.stages, bounds.kept, bounds.recomputed, {passes.begin(), passes.end()}}];
    if (!found) found = std::make_shared<Entry>();
    entry = found;
  }
  const std::lock_guard lock(entry->mutex);
  if (!entry->made)
    entry->made = std::make_unique<const Rewritten>(tessera::rewrite(graph, bounds, passes));
  return *entry->made;
}

}  // namespace tessera
