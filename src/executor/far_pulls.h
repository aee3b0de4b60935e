// What an exchange pulls from ranks of other members: which boxes travel, and how they are received
// while the exchange acts.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "comm/network.h"
#include "reshard/reshard.h"

namespace tessera {

/// The pulls of a receiver with what the network makes of them; both sides derive it alike.
struct TravellingPulls {
  std::vector<Pull>
      pulls;  // boxes that are put together in staging memory come in pieces; else as they were
  std::vector<bool> in_place;  // by pull: it comes from another member straight to where it belongs
};
/// in place  the only contribution to its box, which lies dense in the receiver's part; all others
/// are staged and then combined, in the
///           order of the pulls: the sums are those of ranks in one program, bit for bit
TravellingPulls travelling(const TensorType& type, const Exchange& exchange,
                           const std::vector<Pull>& pulls, Rank receiver,
                           const std::function<bool(Rank sender)>& is_far);

/// Where `box` begins in a dense tensor that holds `frame`, in elements, when it lies there without
/// gaps.
std::optional<int64_t> dense_offset(const Box& box, const Box& frame);

/// The receiving side of an exchange with senders on other members, for one act after the other.
///
///   memory  nothing is allocated after planning; staging is lent
///   order   plan: lanes, then pieces; a record: ask_for, which may come before the senders have
///   filled it, then go_on until it is over
class FarPulls {
 public:
  /// `port`: the input port of the sender.
  void add_lane(size_t port, int member, const FetchRequest& request);
  void add_in_place(size_t port, int64_t offset, int64_t bytes);
  /// A contribution to box `box`, which BoxCombine takes from source `source`. In the order of the
  /// pulls.
  void add_staged(size_t port, size_t box, size_t source, int64_t bytes);
  /// `boxes`: how many are put together.
  void finish_plan(size_t boxes);
  bool pulls_anything() const { return !lanes_.empty(); }
  /// Memory that an act needs.
  Bytes staging_bytes() const { return Bytes(slot_bytes_ * slots()); }

  /// Posts memory for what comes first, and asks for all.
  ///   requires  the bytes of the target and of the staging memory are free until the record is
  ///   over
  void ask_for(int64_t record, RemoteFetch& fetch, std::byte* target, std::byte* staging);
  /// Puts together the boxes of which all contributions are there, as far as they go without one
  /// that is not.
  ///   boxes     by number, as they were planned
  ///   sources   by source: of senders on this member set, their slots being filled; the others are
  ///   set here returns   whether anything was done
  bool go_on(const std::vector<BoxCombine>& boxes, std::vector<const std::byte*>& sources);
  /// Would go_on do something, or is it over?  threads  any
  bool has_news() const;
  bool is_over() const;

 private:
  struct Lane {
    size_t port = 0;
    int member = 0;
    FetchRequest request;
  };
  struct Piece {
    size_t lane = 0;
    size_t source = 0;
    int64_t offset = 0;  // in the target, or in a slot of the staging memory
    int64_t bytes = 0;
  };
  struct StagedBox {
    size_t box = 0;
    std::vector<Piece> pieces;
    int64_t bytes = 0;
  };
  static constexpr int kMostSlots = 4;

  size_t lane_of(size_t port) const;
  int slots() const { return std::min(kMostSlots, static_cast<int>(staged_.size())); }
  std::byte* slot(size_t staged) const;
  Countdown& in_flight(size_t staged) const {
    return in_flight_[staged % static_cast<size_t>(slots())];
  }
  bool has_arrived(const Countdown& countdown) const {
    return countdown.load(std::memory_order_acquire) == 0;
  }
  bool is_here(size_t box) const;
  void post(size_t staged);

  std::vector<Lane> lanes_;
  std::vector<Piece> in_place_;
  std::vector<StagedBox> staged_;
  int64_t slot_bytes_ = 0;
  std::unique_ptr<Countdown[]>
      in_flight_;                 // by slot of the staging memory, and last those in place
  RemoteFetch* fetch_ = nullptr;  // of the record
  std::byte *target_ = nullptr, *staging_ = nullptr;
  size_t boxes_ = 0;        // that are put together
  size_t next_box_ = 0;     // of them
  size_t next_staged_ = 0;  // box to come
};

}  // namespace tessera
