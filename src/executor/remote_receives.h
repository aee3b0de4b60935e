// The data that an exchange receives from ranks of other processes: which boxes the network
// carries, and how they arrive while the exchange acts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/remote_fetch.h"
#include "executor/exchange_backend.h"
#include "reshard/pulls.h"

namespace tessera {

/// The pulls of a receiver in the form in which the network carries them. Sender and receiver
/// derive the same.
struct TravellingPulls {
  std::vector<Pull> pulls;     // boxes that are combined in staging memory are cut into pieces
  std::vector<bool> in_place;  // by pull: is it received straight into the target?
};
/// A box from another process is received in place when it has one contribution and is dense in the
/// receiver's part. All others are staged and combined in the order of the pulls: the sums have the
/// same bits as those of ranks in one process.
TravellingPulls travelling(const TensorType& type, const Exchange& exchange,
                           const std::vector<Pull>& pulls, Rank receiver,
                           const std::function<bool(Rank sender)>& is_remote);

/// The offset of `box` in a dense tensor that holds `frame`, in elements; nullopt when the box is
/// not contiguous there.
std::optional<int64_t> dense_offset(const Box& box, const Box& frame);

/// The receiving side of an exchange with senders in other processes. start() posts receives and
/// requests the data from the senders, which answer when they have filled it.
///
///   order  plan it with lanes, then pieces, then finish_plan()
class RemoteReceives : public ExchangeBackend {
 public:
  explicit RemoteReceives(RemoteFetch& fetch) : fetch_(fetch) {}
  /// `port`: the input port of the sender.
  void add_lane(size_t port, int process, const FetchRequest& request);
  void add_in_place(size_t port, int64_t offset, int64_t bytes);
  /// Adds a contribution to box `box`, which BoxCombine takes from source `source`.
  ///   requires  calls are in the order of the pulls
  void add_staged(size_t port, size_t box, size_t source, int64_t bytes);
  /// `boxes` is the number of boxes that are combined.
  void finish_plan(size_t boxes);
  bool receives_anything() const { return !lanes_.empty(); }

  bool may_prefetch() const override { return true; }
  Bytes staging_bytes() const override { return Bytes(slot_bytes_ * slots()); }
  void start(int64_t iteration, const Buffers& buffers) override;
  /// Combines boxes in their order, up to the first one that waits for a contribution.
  bool advance(BoxCombination& combination) override;
  bool has_news() const override;
  bool is_over() const override;
  std::string_view awaited() const override { return "bytes of ranks of other processes"; }

 private:
  struct Lane {
    size_t port = 0;
    int process = 0;
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
  static constexpr int kMaxSlots = 4;

  size_t lane_of(size_t port) const;
  int slots() const { return std::min(kMaxSlots, static_cast<int>(staged_.size())); }
  std::byte* slot(size_t staged) const;
  Countdown& in_flight(size_t staged) const { return in_flight_[staged % slots()]; }
  bool has_arrived(const Countdown& countdown) const {
    return countdown.load(std::memory_order_acquire) == 0;
  }
  bool is_here(size_t box) const;
  void post(size_t staged);

  RemoteFetch& fetch_;
  std::vector<Lane> lanes_;
  std::vector<Piece> in_place_;
  std::vector<StagedBox> staged_;
  int64_t slot_bytes_ = 0;
  // by slot of the staging memory; the last counts those in place
  std::unique_ptr<Countdown[]> in_flight_;
  std::byte *target_ = nullptr, *staging_ = nullptr;
  size_t boxes_ = 0;        // boxes that are combined
  size_t next_box_ = 0;     // the next box to combine
  size_t next_staged_ = 0;  // index in staged_: the next one to combine
};

}  // namespace tessera
