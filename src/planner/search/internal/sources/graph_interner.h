// Graphs of which equal ones are in memory once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "ir/graph/graph.h"

namespace tessera {

/// The graphs that passes make of one graph for many plans, most of which are equal.
///   requires  all of them have the same operators
///   threads   any number of callers
class GraphInterner {
 public:
  /// The graph, or an equal one that was kept before.
  std::shared_ptr<const Graph> keep(Graph graph);

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const Graph>> kept_;  // by fingerprint
};

}  // namespace tessera
