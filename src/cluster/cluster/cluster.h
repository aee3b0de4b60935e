// A cluster: devices in machines, and the links between them. Prices, the simulator and the mapping
// of ranks to devices read it. It knows no plans and no graphs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/cluster/description.h"
#include "cluster/cluster/internal/link_tree.h"

namespace tessera {

/// Devices of one type: a device mesh for plans.
struct DeviceGroup {
  std::string type;
  std::vector<DeviceId> devices;
};

/// Identical machines as a device mesh: of one type, one number of devices, and equal links inside.
struct DeviceMesh {
  std::string type;
  std::vector<int> machines;
  int devices_per_machine = 0;
  std::vector<DeviceId> devices;  // machine by machine
};

class Cluster {
 public:
  ///   throws  UserError (78): no devices, unknown types, two types or machines of one name, a
  ///           device without memory, and what LinkTree refuses
  explicit Cluster(ClusterDescription description);

  const ClusterDescription& description() const { return description_; }
  int device_count() const { return static_cast<int>(devices_.size()); }
  int machine_count() const { return static_cast<int>(machines_.size()); }
  const DeviceType& type(DeviceId device) const;
  int machine(DeviceId device) const { return devices_.at(device).machine; }
  const std::string& machine_name(int machine) const { return machines_.at(machine).name; }
  std::span<const DeviceId> devices_of(int machine) const { return machines_.at(machine).devices; }
  /// That the devices of a machine share: those of its description, else one for each CPU device.
  double cores(int machine) const { return machines_.at(machine).cores; }
  std::string name(DeviceId device) const;  // "n0/3": the machine and the device in it
  /// The device groups, one for each type, in the order of their first devices.
  std::vector<DeviceGroup> groups() const;
  /// The device meshes, one for all identical machines, in the order of their first machines.
  std::vector<DeviceMesh> device_meshes() const;

  std::span<const Channel> channels() const { return links_.channels(); }
  /// The channels that messages between two devices pass; empty for one device.
  std::vector<ChannelId> path(DeviceId from, DeviceId to) const { return links_.path(from, to); }
  /// The latency, and the bandwidth of a message that is alone on its path. Of one device: no
  /// latency, and the rate of its copies.
  LinkCost link(DeviceId from, DeviceId to) const;
  /// The name of the level that joins two devices; "" for one device, "direct" for a direct link.
  std::string level(DeviceId a, DeviceId b) const { return a == b ? "" : links_.level(a, b); }

 private:
  struct Device {
    int type = 0, machine = 0;
  };
  struct Machine {
    std::string name;
    double cores = 0;
    std::vector<DeviceId> devices;
  };

  ClusterDescription description_;
  std::vector<Device> devices_;
  std::vector<Machine> machines_;
  LinkTree links_;
};

}  // namespace tessera
