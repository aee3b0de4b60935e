// Flows that share resources on a simulated clock: bytes over links, core time on the cores of a
// machine. This file knows flows and their rates; it knows no acts, and no prices.
//
// Every flow has one rate on all the resources that it passes. The rates are max-min fair: no flow
// can be faster unless one that is not faster than it becomes slower. They change only when a flow
// begins or ends, and only those that are connected to it by shared resources change.
//
// Rates and amounts are whole numbers, and a rate is rounded down, so that a result depends neither
// on the order in which flows are listed nor on whether equal flows are counted or listed.
//
// Source: progressive filling (Bertsekas, Gallager, Data Networks, 1992, section 6.5.2).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/index.h"

namespace tessera {

using ResourceId = Index<struct ResourceTag>;
using FlowId = Index<struct FlowTag>;

/// What flows share. A link has a resource for each of its directions.
struct Resource {
  enum class Kind : uint8_t { kLink, kCores };
  std::string name;
  /// > 0, units a second: bytes of a link; of cores core-nanoseconds, 1e9 for each core.
  int64_t capacity = 1;
  Kind kind = Kind::kLink;

  bool operator==(const Resource&) const = default;
};

struct ResourceUse {
  ResourceId resource;
  /// How many flows that behave as this one pass the resource. It is 1 unless ranks are represented
  /// by others.
  int64_t count = 1;

  auto operator<=>(const ResourceUse&) const = default;
};

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct Flow {
  int64_t amount = 0;             // units, >= 0
  std::vector<ResourceUse> uses;  // of distinct resources; none: the flow has a limit
  int64_t limit = kNoLimit;       // the greatest rate, > 0: a thread uses at most one core

  auto operator<=>(const Flow&) const = default;
};

/// The flows in flight and their rates. Times are nanoseconds and do not decrease from call to
/// call.
class FairRates {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  explicit FairRates(IndexedVector<ResourceId, Resource> resources);

  /// Adds a flow; `flow` stays valid until it ends. It moves once update() has given it a rate.
  ///   amount  instead of that of `flow`, > 0
  FlowId begin(const Flow& flow, int64_t amount, int64_t now);
  FlowId begin(const Flow& flow, int64_t now) { return begin(flow, flow.amount, now); }

  /// Recomputes the rates after flows began or ended.
  ///   time  O((f + r) log r) for f flows and r resources that are connected to them
  void update(int64_t now);

  /// The time at which the next flow ends, rounded up; kNever without flows.
  ///   requires  update() since the last change
  int64_t next_end();

  /// Removes the flows that end at `now` and returns them in the order in which they began.
  std::vector<FlowId> end_flows(int64_t now);

  /// Units a second.
  int64_t rate(FlowId flow) const { return active_[flow].rate; }

 private:
  // The product of units and nanoseconds does not fit 64 bits.
  __extension__ typedef __int128 Wide;

  struct Active {
    const Flow* flow = nullptr;
    int64_t number = 0;  // flows are numbered as they begin
    int64_t rate = 0;
    int64_t settled = 0;         // the time at which `left` was true
    Wide left = 0;               // units * 1e9
    int version = 0;             // of its rate: earlier ends in the queue do not count
    bool is_reached = false;     // by update(), and has no new rate yet
    std::vector<size_t> places;  // by use: its position among the flows of the resource
  };
  struct Shared {
    std::vector<std::pair<FlowId, int>> flows;  // with the index of the use
    int64_t left = 0;                           // capacity that flows with a new rate do not take
    int64_t load = 0;                           // flows without a new rate
    bool is_changed = false;
    bool is_reached = false;
  };
  struct End {
    int64_t time = 0;
    int64_t number = 0;
    FlowId flow;
    int version = 0;
    bool operator>(const End& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };
  using Share = std::pair<int64_t, ResourceId>;

  void touch(ResourceId resource);
  void leave(FlowId flow);
  void reach(std::vector<FlowId>& flows, std::vector<ResourceId>& resources);
  void fill(std::vector<FlowId> flows, const std::vector<ResourceId>& resources, int64_t now);
  int64_t share(ResourceId resource) const;
  void set_rate(FlowId flow, int64_t rate, int64_t now);
  void drop_outdated_ends();

  IndexedVector<ResourceId, Resource> resources_;
  IndexedVector<ResourceId, Shared> shared_;
  IndexedVector<FlowId, Active> active_;
  std::vector<FlowId> free_;  // elements of active_ without a flow
  std::vector<ResourceId> changed_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  int64_t begun_ = 0;
};

}  // namespace tessera
