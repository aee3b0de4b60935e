// The ranks of a run on the devices of a cluster, and the prices of the compiler that follow.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "cluster/cost/cost_model.h"
#include "sharding/layout/mesh.h"

namespace tessera {

/// Which device each rank runs on.
struct Deployment {
  const Cluster* cluster = nullptr;
  std::vector<DeviceId> device_of_rank;

  DeviceId device(Rank rank) const { return device_of_rank.at(rank); }
  const DeviceType& type(Rank rank) const { return cluster->type(device(rank)); }
};

/// Does a rank exchange while its kernels run? Cores do not, nor does a runtime that says so.
bool runs_exchanges_ahead(const Cluster& cluster);

/// Is a device of this type what a rank needs?
///   hardware  "cpu", "gpu", "npu", the name of a type, or "" for any
bool can_have(const DeviceType& type, const std::string& hardware);

/// Rank i on device i. On a cluster of cores, more ranks than cores begin at the first core again,
/// and share them.
///
///   throws  UserError (78) when there are more ranks than devices that are no cores
Deployment identity_mapping(const Cluster& cluster, int ranks);

/// Each rank on a device of its own, by the names of Cluster::name.
///
///   throws  UserError (78) when the cluster has no device of a name
Deployment on_named_devices(const Cluster& cluster, const std::vector<std::string>& names);

/// The same for ranks that need certain devices: each rank, in order, has the first free one that
/// it can have. Ranks that need a type choose before those that need a kind, and these before ranks
/// that can have any.
///
///   hardware  by rank: "cpu", "gpu", "npu", the name of a type, or "" for any
///   throws    UserError (78) as above, and when the cluster has not enough such devices
Deployment identity_mapping(const Cluster& cluster, std::span<const std::string> hardware);

///   hardware  as of identity_mapping
///   throws    UserError (78) when the device of a rank is none that the rank needs
void check_hardware(const Deployment& deployment, std::span<const std::string> hardware);

/// The cost model that the compiler decides by: the device is the slowest of the deployment, class
/// by class. The link of a mesh axis is that of a ring: every rank sends to the next one on the
/// axis, in all groups of the axis at once, so that ports which several groups share are divided.
/// The link between any two ranks is the slowest. An axis that spans machines, in blocks of
/// neighbours, has the levels of LinkCosts::levels, with the names of those of the cluster.
///
///   requires  the ranks of the meshes are in the deployment
CostModel cost_of(const Deployment& deployment, std::span<const MeshPtr> meshes);

}  // namespace tessera
