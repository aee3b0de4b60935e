// Over which links of a cluster the axes of a plan exchange. This file knows plans and clusters,
// and no graphs.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "compiler/plan/plan.h"

namespace tessera {

/// The levels of the cluster that join the neighbours on an axis, the one of most bandwidth first.
/// Neighbours differ by one in the coordinate of the axis; those of "pp" have the same place in two
/// stages that follow each other.
struct AxisLevels {
  std::string axis;
  std::vector<std::string> levels;  // as Cluster::level

  bool operator==(const AxisLevels&) const = default;
};

/// Of every axis of the meshes that has several parts, in the order in which the plan has them;
/// "pp" comes last.
///   requires  the cluster has a device for each rank
///   example   {"dp", {"leaf"}}, {"tp", {"hccs"}}, {"pp", {"leaf", "spine"}}
///   time      O(ranks x axes)
std::vector<AxisLevels> axis_levels(const Plan& plan, const Cluster& cluster);

/// "dp on leaf; tp on hccs; pp on leaf, spine".
std::string to_text(const std::vector<AxisLevels>& list);

}  // namespace tessera
