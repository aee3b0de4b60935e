// The links of a cluster as a tree of groups: devices, machines, switches.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster/description.h"

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

/// Two devices communicate over the ports of the smallest group that holds both: of the children of
/// this group in which they are. Traffic between machines also passes the ports of all levels of
/// the network below, but none of the levels inside machines, since NVLink and the like carry only
/// what is exchanged inside. Where a machine has several ports, each of its devices uses its own
/// part of them, or shares one with its neighbours where there are more devices.
class LinkTree {
 public:
  ///   throws  UserError (78): levels that do not join all devices or whose sizes do not divide
  ///           them, a bandwidth of 0, a direct link of a device to itself or to one that is not
  ///           there, two direct links between the same devices
  explicit LinkTree(const ClusterDescription& description);

  std::span<const Channel> channels() const { return channels_; }
  /// The channels that messages between two devices pass; empty for one device.
  std::vector<ChannelId> path(DeviceId from, DeviceId to) const;
  /// The link of the level that joins two devices, or their direct link.
  ///   requires  two devices
  const LinkCost& joint_link(DeviceId from, DeviceId to) const;
  /// The name of the level that joins two devices; "direct" for a direct link.
  ///   requires  two devices
  std::string level(DeviceId a, DeviceId b) const;

 private:
  struct Group {
    std::string name;
    LinkLevel level;
    bool is_network = false;
    int parent = -1, index = 0, depth = 0;           // of the root: 0
    std::vector<std::string> children;               // their names
    std::vector<double> rates = {};                  // by child: of its ports, in one direction
    int machine_devices = 0;                         // of a machine; else 0
    std::optional<MachinePorts> machine_ports = {};  // of a machine that has its own
    std::vector<int> devices = {};                   // by child of a network: its machine_devices
    std::vector<int> port_counts = {};               // by child of a network
    ChannelId channels = 0;                          // the first one of its children
    std::vector<ChannelId> ports = {};    // by child of a switch: the first one of its ports
    bool has_different_children() const;  // in their rates
  };
  /// A child of a group, and the device that is in it.
  struct Place {
    int group = 0, child = 0;
    DeviceId device = 0;
  };

  int add_machine(const MachineGroup& machine, const std::string& name);
  std::vector<int> join_inside(const InnerLevel& level, const std::string& machine,
                               const std::vector<int>& nodes, int first);
  std::vector<int> join(const NetworkLevel& level, const std::vector<int>& nodes);
  void set_depths();
  void add_channels();
  void add_direct_links(const ClusterDescription& description);
  void add_direct_link(DeviceId a, DeviceId b, const LinkCost& link);
  int smallest_group_of(DeviceId a, DeviceId b) const;
  /// The parts of the ports of a child of a switch; 1 where all devices below share them.
  int port_count(const Group& group, int child) const;
  /// The channel out of a child of a switch, or into it, that a device uses.
  ChannelId port(Place place, bool into) const;
  /// The groups that hold a device up to `last`, the innermost one first, each with the child that
  /// leads to the device.
  std::vector<Place> places_of(DeviceId device, int last) const;

  std::vector<Place> devices_;
  std::vector<int> in_machine_;     // by device: its number in its machine
  std::vector<std::string> names_;  // of devices
  std::vector<Group> groups_;       // children before their parents
  std::vector<Channel> channels_;
  /// By two devices, the smaller one first: the link, and its channel from the first to the second;
  /// the next one is the way back.
  std::map<std::pair<DeviceId, DeviceId>, std::pair<LinkCost, ChannelId>> direct_;
};

}  // namespace tessera
