// What a cluster file says: types of devices, machines, and the links between them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cluster/cluster/runtime_profile.h"
#include "cluster/cost/device_cost.h"
#include "cluster/cost/links.h"

namespace tessera {

/// The kinds of devices, as plans and cluster files name them.
enum class HardwareKind : uint8_t { kCpu, kGpu, kNpu };
std::string_view to_text(HardwareKind kind);  // "cpu", "gpu", "npu"

/// One type of device.
struct DeviceType {
  std::string name;  // "a100-80g"
  HardwareKind kind = HardwareKind::kGpu;
  Bytes memory{0};   // of one device
  Bytes reserve{0};  // of it, that the runtime and the libraries take
  DeviceCost cost = {};
  std::string source;  // where the figures come from, for readers
  /// Dense flop/s of matmuls as its data sheet has them, for MFU and HFU alone. Kernels are priced
  /// by `cost`, with what large ones reach.
  PeakRates peaks = {};

  /// The part of its rates of products that it keeps in a long run at its power, with the kernels
  /// of runtimes other than ours.
  double sustained = 1;

  /// The data sheet's peak; where it is not known, the rate of large matmuls.
  double peak(DType dtype) const {
    const auto found = peaks.find(dtype);
    return found != peaks.end() ? found->second : cost.flops_rate(OperationClass::kMatmul, dtype);
  }
  bool operator==(const DeviceType&) const = default;
};

/// How the neighbours on one level share its links.
enum class LinkSharing : uint8_t {
  kSwitch,  // each has ports of its own, and the switch carries all that they send
  kBus,     // all share one bandwidth
  kMesh,    // each two have a link of their own
};
std::string_view to_text(LinkSharing sharing);  // "switch", "bus", "mesh"

/// The links of one level: between the devices or groups that it joins, its children.
struct LinkLevel {
  std::string name;  // "nvlink", "ib"
  /// The latency between two children; the bandwidth of one port in one direction, of the bus in
  /// both together, or of the link between two children in one direction.
  LinkCost link = {};
  LinkSharing sharing = LinkSharing::kSwitch;
  int ports = 1;  // of a child

  double bytes_per_second() const { return ports * link.bytes_per_second; }
  bool operator==(const LinkLevel&) const = default;
};

/// A level inside machines: it joins `size` neighbours of the level below, 0 all of a machine.
struct InnerLevel {
  LinkLevel level;
  int size = 0;

  bool operator==(const InnerLevel&) const = default;
};

/// A direct link between two devices instead of their path, in both directions; each direction has
/// its bandwidth.
struct DirectLink {
  int a = 0, b = 0;  // in the order of devices, of a machine or of the cluster
  LinkCost link = {};

  bool operator==(const DirectLink&) const = default;
};

/// What joins a machine to the network, where it is not what the level says.
struct MachinePorts {
  int ports = 1;
  double bytes_per_second = 0;  // of a port, in one direction

  bool operator==(const MachinePorts&) const = default;
};

/// Identical machines.
struct MachineGroup {
  std::vector<std::string> names;  // of the machines; they are unique in the cluster
  std::string device;              // the name of a type
  int devices = 1;                 // of a machine
  /// Cores of the host that the devices of a machine share. 0: those of CPU devices are their own.
  double cores = 0;
  std::vector<InnerLevel> levels = {};  // from the inside out; the last one joins all devices
  std::vector<DirectLink> direct = {};  // in every machine, by the number of the device in it
  std::optional<MachinePorts> network = {};

  bool operator==(const MachineGroup&) const = default;
};

/// A level of the network: what its switches join.
struct NetworkLevel {
  LinkLevel level;
  /// Times that all children can send more together than the links from their switch upwards
  /// carry: of this level's children, which are switches. 0: `level` has the bandwidth.
  double oversubscription = 0;
  /// By child (a machine, or a switch of the level below): the index of its switch.
  std::vector<int> switch_of_child;

  bool operator==(const NetworkLevel&) const = default;
};

struct ClusterDescription {
  std::string name;
  std::vector<DeviceType> types;
  std::vector<MachineGroup> machines;
  std::vector<NetworkLevel> network;  // from the inside out; the last one has one switch
  std::vector<DirectLink> direct;     // by the number of the device in the cluster
  /// Whose software runs on it.
  RuntimeProfile runtime = {};
  /// What is assumed where the source of the description says nothing, for readers.
  std::vector<std::string> assumed = {};
  /// Where the values come from, by their place in the document (cluster/cluster/sources.h).
  std::map<std::string, std::string> sources = {};

  bool operator==(const ClusterDescription&) const = default;
};

/// The cluster as software with a profile uses it: its devices and links have the rates that this
/// software reaches, and `runtime` is the profile, whose reach is all of them.
ClusterDescription on_runtime(ClusterDescription description, RuntimeProfile profile);
/// The same, where it names no software: the usual one of its devices. Clusters with CPUs are left
/// as they are, since there our own runtime runs the step.
ClusterDescription on_usual_runtime(ClusterDescription description);

}  // namespace tessera
