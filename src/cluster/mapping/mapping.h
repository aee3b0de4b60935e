// The mapping of ranks to devices: which device of a cluster each rank of a program gets, so that
// ranks which exchange much are close. It knows clusters and traffic, and no plans.
//
// The cost of a mapping is the sum over all traffic of
//
//     weight x (bytes / bandwidth of the pair + messages x latency of the pair)
//
// in seconds of links a step, with the bandwidth and latency of Cluster::link (in the slower
// direction). This is a quadratic assignment: it is a sum over pairs, so that an exchange of two
// ranks is priced in the time of their neighbours, and so that a level of the tree has a lower
// bound of its own. The busiest channel, which a step waits for, is a maximum: many mappings have
// the same one, and a search on it has nothing to follow. It decides between mappings of equal
// cost, and it is reported.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "cluster/mapping/internal/mapping_input.h"

namespace tessera {

/// What found a mapping.
enum class MappingMethod : uint8_t {
  kExact,      // branch and bound over all mappings
  kGrid,       // the best of all orders in which boxes of the grid fill the levels of the tree
  kGreedy,     // the neighbour with most traffic first
  kBisection,  // halves of the ranks for halves of the tree
};
std::string_view to_text(MappingMethod method);  // "exact", "grid", "greedy", "bisection"

/// What the traffic of one axis costs on one level of the cluster.
struct LevelTraffic {
  std::string axis;   // "" for traffic beside the grid
  std::string level;  // as Cluster::level
  double bytes = 0;
  Seconds cost{0};
};

struct MappingCost {
  Seconds cost{0};
  /// The longest time that one channel takes for the bytes that pass it in a step.
  Seconds busiest{0};
  std::string busiest_channel;  // "" without traffic
};

struct Mapping {
  std::vector<DeviceId> devices;  // by rank
  MappingCost cost;
  /// No mapping costs less.
  Seconds bound{0};
  MappingMethod method = MappingMethod::kExact;
  bool exchanged = false;  // exchanges of ranks improved what the method found
  bool optimal = false;    // it is proved: by an exhaustive search, or by the bound
  std::vector<LevelTraffic> levels;

  /// How far the cost is above the bound, as a part of it; 0 for an optimal mapping.
  double gap() const;
};

/// Maps each rank to a device of its own that has what the rank needs.
///
///   requires  ranks of traffic exist; bytes, messages and weights are not negative; the grid has
///             all ranks once
///   ensures   the same for the same input; with up to 8 ranks no other mapping costs less; never
///             dearer than the greedy mapping
///   throws    UserError (3) when the cluster lacks devices: fewer than ranks, none of a kind or
///             type, none with the memory or the compute that a rank needs, or too few of them
///   time      O(traffic x levels) a pass of exchanges, of which the number is limited
///   sources   multisection along the tree and exchanges between neighbours: Schulz and Traeff,
///             Better process mapping and sparse quadratic assignment, SEA 2017; groups from the
///             leaves up: Jeannot, Mercier and Tessier, IEEE TPDS 25(4), 2014. Bounds: bounds.h
Mapping map_ranks(const MappingInput& input, const Cluster& cluster);

/// The cost of any mapping, with the busiest channel.
MappingCost mapping_cost(const MappingInput& input, const Cluster& cluster,
                         const std::vector<DeviceId>& devices);

/// What each axis costs on each level, from the inside out.
std::vector<LevelTraffic> level_traffic(const MappingInput& input, const Cluster& cluster,
                                        const std::vector<DeviceId>& devices);

/// The mapping as a report for readers: the cost, the bound, and a line for each axis and level.
std::string mapping_report(const Mapping& mapping);

}  // namespace tessera
