// A cluster: devices in machines, and the links between them as a tree. Prices, the simulator and
// the mapping of ranks to devices read it. It knows no plans and no graphs.
//
// Two devices communicate over the ports of the smallest group that holds both: of the children of
// this group in which they are. Traffic between machines also passes the ports of all levels of the
// network below, but none of the levels inside machines, since NVLink and the like carry only what
// is exchanged inside.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/description.h"

namespace tessera {

/// A device, numbered from 0: machine by machine in the order of the description.
using DeviceId = int;
/// One direction of a port or of a link, numbered from 0.
using ChannelId = int;

/// A resource that messages share.
struct Channel {
  std::string name;  // "n0/3 nvlink out", "n0 ib in"
  double bytes_per_second = 0;
};

/// Devices of one type that are alike: a device mesh for plans.
struct DeviceGroup {
  std::string type;
  std::vector<DeviceId> devices;
};

class Cluster {
 public:
  ///   throws  UserError (78): unknown types, no devices, machines of the same name, levels that do
  ///           not join all devices or whose sizes do not divide them, memory or bandwidth of 0, a
  ///           direct link of a device to itself or to one that is not there
  explicit Cluster(ClusterDescription description);

  const ClusterDescription& description() const { return description_; }
  int device_count() const { return static_cast<int>(devices_.size()); }
  int machine_count() const { return static_cast<int>(machine_names_.size()); }
  const DeviceType& type(DeviceId device) const;
  int machine(DeviceId device) const { return devices_.at(device).machine; }
  std::span<const DeviceId> devices_of(int machine) const { return of_machine_.at(machine); }
  std::string name(DeviceId device) const;  // "n0/3": the machine and the device in it
  /// The device groups, one for each type, in the order of their first devices.
  std::vector<DeviceGroup> groups() const;

  std::span<const Channel> channels() const { return channels_; }
  /// The channels that messages between two devices pass; empty for one device.
  std::vector<ChannelId> path(DeviceId from, DeviceId to) const;
  /// The latency, and the bandwidth of a message that is alone on its path. Of one device: no
  /// latency, and the rate of its copies.
  LinkCost link(DeviceId from, DeviceId to) const;
  /// The name of the level that joins two devices; "" for one device, "direct" for a direct link.
  std::string level(DeviceId a, DeviceId b) const;

 private:
  struct Device {
    int type = 0, machine = 0;
    int parent = 0;  // the innermost group that holds it
    int index = 0;   // among the children of that group
  };
  /// A group of devices or of groups. Its children have ports to the links that join them.
  struct Group {
    std::string name;
    LinkLevel level;
    bool is_network = false;
    int parent = -1, index = 0, depth = 0;  // of the root: 0
    std::vector<std::string> children;      // their names
    std::vector<double> rates = {};         // by child: of its ports, in one direction
    ChannelId channels = 0;                 // the first one of its children
  };

  void add_machines();
  int add_machine(const MachineGroup& group, int type, const std::string& name);
  int add_inner_groups(const MachineGroup& group, const std::string& machine);
  void add_network(std::vector<int> nodes);
  std::vector<int> join(const NetworkLevel& level, const std::vector<int>& children);
  void set_depths();
  void add_channels();
  void add_direct_links();
  void add_direct_link(DeviceId a, DeviceId b, const LinkCost& link);
  /// The groups that hold a device, the innermost one first, each with the child that leads to it.
  std::vector<std::pair<int, int>> groups_of(DeviceId device) const;
  /// The channels inside of a group from one child to another one.
  void pass(const Group& group, int from, int to, std::vector<ChannelId>& path) const;
  void leave(const Group& group, int child, std::vector<ChannelId>& path) const;
  void enter(const Group& group, int child, std::vector<ChannelId>& path) const;
  const Group& smallest_group_of(DeviceId a, DeviceId b) const;

  ClusterDescription description_;
  std::vector<Device> devices_;
  std::vector<std::string> machine_names_;
  std::vector<std::vector<DeviceId>> of_machine_;
  std::vector<Group> groups_;
  std::vector<Channel> channels_;
  /// By two devices, the smaller one first: the link, and its channel from the first to the second;
  /// the next one is the way back.
  std::map<std::pair<DeviceId, DeviceId>, std::pair<LinkCost, ChannelId>> direct_;
};

}  // namespace tessera
