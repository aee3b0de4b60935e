#include "compiler/rewrite/rewrite_cache.h"

#include <algorithm>
#include <utility>

namespace tessera {

std::shared_ptr<RewriteCache::Entry> RewriteCache::entry_of(Key key) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Entry>& found = entries_[std::move(key)];
  if (!found) found = std::make_shared<Entry>();
  found->last_use = ++uses_;
  std::shared_ptr<Entry> entry = found;
  if (entries_.size() > kRewritesKept)
    entries_.erase(std::ranges::min_element(
        entries_, {}, [](const auto& kept) { return kept.second->last_use; }));
  return entry;
}

Rewritten RewriteCache::rewrite(const Graph& graph, const RewriteBounds& bounds,
                                std::span<const GraphPass* const> passes) {
  const std::shared_ptr<Entry> entry =
      entry_of({bounds.stages, bounds.kept, bounds.recomputed, {passes.begin(), passes.end()}});
  const std::lock_guard lock(entry->mutex);
  if (!entry->made)
    entry->made = std::make_unique<const Rewritten>(tessera::rewrite(graph, bounds, passes));
  return *entry->made;
}

std::vector<bool> RewriteCache::recomputed_values(const Graph& graph, const Recompute& choice) {
  const std::lock_guard lock(mutex_);
  const auto known =
      std::ranges::find(recomputed_, choice, &std::pair<Recompute, std::vector<bool>>::first);
  if (known != recomputed_.end()) return known->second;
  return recomputed_.emplace_back(choice, tessera::recomputed_values(graph, choice)).second;
}

}  // namespace tessera
