// Ranks that behave alike, so that one of them is simulated for all.
//
// Two ranks behave alike when they execute the same tasks with the same demands, exchange with
// ranks that behave alike, and use resources that are used alike. Then they act at the same times,
// to the nanosecond. The classes are the coarsest ones of this kind.
//
// Source: partition refinement to an equitable partition (Paige, Tarjan, Three partition refinement
// algorithms, SIAM J. Comput. 16(6), 1987), here by signatures in rounds.
#pragma once

#include <vector>

#include "simulator/clock/demands.h"
#include "simulator/clock/internal/exchange_links.h"

namespace tessera {

/// What the tasks of one rank demand: a demand for each task that Demands::of was asked for, in
/// ascending order.
struct RankDemand {
  TaskId task;
  ActDemand demand;
};

/// The ranks of a run, by rank index, and what distinguishes them before they exchange anything.
struct RankFacts {
  std::vector<std::vector<RankDemand>> demands;
  /// Equal for ranks of the same meshes with the same speed. A rank that no other one can be like
  /// has a value of its own.
  std::vector<int64_t> kind;
};

struct RankClasses {
  std::vector<int> class_of;         // by rank index
  std::vector<int> representatives;  // by class: its least rank index, ascending
  std::vector<int> sizes;            // by class
  IndexedVector<ResourceId, ResourceId> resource_class_of;
  IndexedVector<ResourceId, Resource> resources;  // one for each class of resources
  IndexedVector<ResourceId, int> resource_counts;

  int count() const { return static_cast<int>(representatives.size()); }
};

/// Each rank and each resource is a class.
RankClasses distinct_ranks(int ranks, const IndexedVector<ResourceId, Resource>& resources);

/// The coarsest classes of ranks that behave alike.
///   time  O(rounds * (messages of distinct exchanges + uses of resources))
RankClasses find_rank_classes(const RankFacts& facts, const ExchangeLinks& links,
                              const TaskGraph& graph,
                              const IndexedVector<ResourceId, Resource>& resources);

/// `demand` of the representative of a class, on classes of resources: of flows that are alike one
/// remains, which counts for those of all ranks of the class that pass one resource.
ActDemand on_classes(const ActDemand& demand, int rank_class, const RankClasses& classes);

}  // namespace tessera
