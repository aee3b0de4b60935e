// Rewritten graphs that several compilations of one graph share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "rewrite/rewrite.h"

namespace tessera {

/// Keeps what rewrite() made of one graph, by its bounds and passes.
///
///   requires  every call has the same graph
///   threads   any number of callers; those that want the same wait for the first one
class RewriteCache {
 public:
  /// rewrite(graph, bounds, passes)
  Rewritten rewrite(const Graph& graph, const RewriteBounds& bounds,
                    std::span<const GraphPass* const> passes);

 private:
  using Key = std::tuple<std::vector<int>, std::vector<bool>, std::vector<bool>,
                         std::vector<const GraphPass*>>;
  struct Entry {
    std::mutex mutex;
    std::unique_ptr<const Rewritten> made;
  };

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
};

}  // namespace tessera
