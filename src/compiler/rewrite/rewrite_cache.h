// Rewritten graphs that several compilations of one graph share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/rewrite/recompute.h"
#include "compiler/rewrite/rewrite.h"

namespace tessera {

/// Keeps what rewrite() made of one graph, by its bounds and passes: the kRewritesKept of them that
/// were wanted last, since graphs are large and plans with equal stages follow each other.
///
///   requires  every call has the same graph
///   threads   any number of callers; those that want the same wait for the first one
inline constexpr size_t kRewritesKept = 12;
class RewriteCache {
 public:
  /// rewrite(graph, bounds, passes)
  Rewritten rewrite(const Graph& graph, const RewriteBounds& bounds,
                    std::span<const GraphPass* const> passes);
  /// recomputed_values(graph, choice), which is kept for every choice.
  std::vector<bool> recomputed_values(const Graph& graph, const Recompute& choice);

 private:
  using Key = std::tuple<std::vector<int>, std::vector<bool>, std::vector<bool>,
                         std::vector<const GraphPass*>>;
  struct Entry {
    std::mutex mutex;
    std::unique_ptr<const Rewritten> made;
    int64_t last_use = 0;
  };
  std::shared_ptr<Entry> entry_of(Key key);

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::vector<std::pair<Recompute, std::vector<bool>>> recomputed_;
  int64_t uses_ = 0;
};

}  // namespace tessera
