// What communication costs: links between ranks, exchanges over them, and collectives.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cluster/cost/internal/price.h"

namespace tessera {

/// The cost of a link: a latency for each rank with which the busiest rank communicates, and the
/// rate of the bytes that it receives or sends. An exchange takes `start` beside it, once: a
/// library that gathers among n ranks in start + (n - 1) latency + bytes / rate (Hockney, 1994).
struct LinkCost {
  /// The default is that of threads on one machine.
  Seconds latency{1e-6};
  double bytes_per_second = 5e9;
  Seconds start{0};

  bool operator==(const LinkCost&) const = default;
};

/// Time of one message.
///
///     estimate = start + latency + bytes / rate,  floor = bytes / rate
Price message_price(Bytes bytes, const LinkCost& link);

/// A level of links that a mesh axis spans, as an axis of its own.
struct AxisLevel {
  std::string name;  // of that axis, of which LinkCosts::axes has the link: "dp_ib"
  int64_t size = 1;

  bool operator==(const AxisLevel&) const = default;
};

/// The links between all ranks.
struct LinkCosts {
  LinkCost any = {};  // between any two ranks
  /// By the name of a mesh axis: between ranks of one mesh that differ on it. Between ranks that
  /// differ on several axes the slowest of them counts.
  std::map<std::string, LinkCost, std::less<>> axes = {};
  /// Of an axis whose ranks are on several levels, neighbours on the fastest: the outermost level
  /// first, sizes above 1. `axes` has a link of the axis itself, too, with which a ring costs what
  /// gathers over one level after the other do.
  std::map<std::string, std::vector<AxisLevel>, std::less<>> levels = {};
  /// Between two ranks, the smaller one first, in both directions: instead of the link of an axis.
  std::map<std::pair<Rank, Rank>, LinkCost> pairs = {};

  /// Between ranks that differ on `axis`.
  const LinkCost& on(std::string_view axis) const;
  /// Between ranks that differ on the outermost of its levels.
  const LinkCost& outermost_on(std::string_view axis) const;
  /// nullptr when the two ranks have no link of their own.
  const LinkCost* between(Rank a, Rank b) const;
  bool operator==(const LinkCosts&) const = default;
};

/// The time of an exchange in which all ranks send and receive at once: that of the busiest rank.
/// Add its messages receiver by receiver.
///
///     estimate = the greatest start of the links, + the largest sum of latencies of one receiver,
///                one for each rank from which it receives, + the longest time in which one rank
///                receives, or sends, all its bytes
///     floor    = the longest time in which one rank receives, or sends, the bytes of one link: its
///                links overlap
///
///   requires  links outlive it; equal links are one object
class ExchangeTime {
 public:
  /// A message to the present receiver.
  void add(Rank sender, Bytes bytes, const LinkCost& link);
  /// The next messages are to another receiver.
  void end_receiver();
  ///   requires  the last receiver has ended
  Price price() const;

 private:
  /// Seconds in which one rank sends or receives.
  struct Load {
    double all = 0;
    std::vector<std::pair<const LinkCost*, double>> by_link = {};

    void add(const LinkCost& link, double seconds);
  };
  /// The longest times of any rank.
  struct Longest {
    double transfer = 0;
    double on_a_link = 0;

    void keep(const Load& load);
  };

  /// Of one sender.
  struct Sender {
    Load load;
    int64_t receiver = -1;  // the number of the last one that it sends to
  };

  Load receiving_;
  int64_t receiver_ = 0;  // number of the present one
  double latency_ = 0, max_latency_ = 0, start_ = 0;
  Longest longest_;
  std::vector<Sender> sending_;  // by rank
};

// Collectives over `ranks` ranks in a ring, or between all pairs of them. With one rank they cost
// nothing. `link` is the slowest link, whose start comes to each.

/// All-reduce: 2 (P - 1) rounds, each with 1 / P of the message.
///
///     estimate = 2 (P - 1) (latency + message / (P rate)),  floor = 2 (P - 1) message / (P rate)
///
///   message  bytes that each rank has before and after
///   source   Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009
Price ring_all_reduce_price(Bytes message, int ranks, const LinkCost& link);

/// All-gather or reduce-scatter: P - 1 rounds, each with 1 / P of the whole.
///
///     estimate = (P - 1) (latency + whole / (P rate)),  floor = (P - 1) whole / (P rate)
///
///   whole   bytes that each rank has after an all-gather, or before a reduce-scatter
///   source  Thakur, Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005
Price ring_all_gather_price(Bytes whole, int ranks, const LinkCost& link);
Price ring_reduce_scatter_price(Bytes whole, int ranks, const LinkCost& link);

/// All-to-all: each rank sends 1 / P of its bytes to each of the P - 1 others.
///
///     estimate = (P - 1) (latency + local / (P rate)),  floor = (P - 1) local / (P rate)
///
///   local   bytes that each rank has before and after
///   source  as above, pairwise exchange
Price all_to_all_price(Bytes local, int ranks, const LinkCost& link);

}  // namespace tessera
