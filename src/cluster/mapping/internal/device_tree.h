// The devices of a cluster as a tree, with prices of links that take a few comparisons. Its places
// are devices, or, after contract(), groups of them.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cluster/cluster/cluster.h"

namespace tessera {

/// A place to which ranks are mapped, numbered from 0 in the order of the tree.
using Place = int;

/// What a link takes, in seconds.
struct LinkPrice {
  double per_byte = 0;
  double per_message = 0;
};

class DeviceTree {
 public:
  explicit DeviceTree(const Cluster& cluster);

  /// A group of places or of groups. The root is the node 0.
  struct Node {
    double latency = 0;
    int parent = -1;
    int height = 0;             // 0: places; from 1: levels inside machines, then of the network
    std::vector<int> children;  // nodes; empty: its places are its children
    Place begin = 0, end = 0;
    int shape = 0;  // nodes of equal shape are alike, and so are their places one by one

    int size() const { return end - begin; }
  };

  int size() const { return static_cast<int>(devices_.size()); }
  int height() const { return nodes_.front().height; }
  const std::vector<Node>& nodes() const { return nodes_; }
  DeviceId device(Place place) const { return devices_[place]; }
  int type(Place place) const { return types_[place]; }    // index among the types of the cluster
  int shape(Place place) const { return shapes_[place]; }  // as Node::shape
  bool has_direct_links() const { return direct_count_ > 0; }

  /// In the slower direction.
  LinkPrice link(Place a, Place b) const {
    if (direct_count_ > 0) {
      const auto& links = direct_[a];
      for (const auto& [other, price] : links)
        if (other == b) return price;
    }
    const Step* x = &steps_[a * depths_];
    const Step* y = &steps_[b * depths_];
    int k = 0;
    while (k + 1 < depths_ && x[k + 1].node == y[k + 1].node && x[k + 1].node >= 0) ++k;
    return {x[k].per_byte > y[k].per_byte ? x[k].per_byte : y[k].per_byte,
            nodes_[x[k].node].latency};
  }

  /// The least of the links between places of two sets of types in different children of a node,
  /// part by part; direct links inside of the node count, too. Without such places: infinite.
  LinkPrice best_link(int node, const std::vector<bool>& from, const std::vector<bool>& to) const;
  /// The same for places of all types.
  LinkPrice best_link(int node) const;
  /// The places that are children of the same innermost group.
  std::pair<Place, Place> siblings(Place place) const;
  /// The innermost group of a place.
  int parent(Place place) const { return parents_[place]; }

  /// The tree of some of the devices, by place.
  DeviceTree keep(const std::vector<bool>& kept) const;
  /// The tree whose places are the largest groups of at most this height.
  ///   requires  direct_height() <= height < height()
  DeviceTree contract(int height) const;
  /// By place: the place that holds it in contract(height).
  std::vector<Place> groups(int height) const;
  /// The largest height of a group inside of which a direct link is; -1 when there are none.
  int direct_height() const { return direct_height_; }

 private:
  DeviceTree() = default;

  /// Of a place, on its path from the root: a node, and what a byte takes to its other children.
  struct Step {
    int node = -1;
    double per_byte = 0;
  };
  struct Builder;

  void add_nodes(const std::vector<std::vector<Step>>& steps, const std::vector<double>& latencies,
                 const std::vector<int>& heights);
  void set_shapes();
  void set_direct_height();

  std::vector<Node> nodes_;
  std::vector<DeviceId> devices_;
  std::vector<int> types_, shapes_, parents_;
  int depths_ = 0;
  std::vector<Step> steps_;                                       // by place and depth
  std::vector<std::vector<std::pair<Place, LinkPrice>>> direct_;  // by place
  /// By place: what tells a device with direct links from others; -1 for one without.
  std::vector<int> direct_mark_;
  int direct_count_ = 0, direct_height_ = -1;
};

}  // namespace tessera
