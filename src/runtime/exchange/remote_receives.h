// The data that an exchange receives from ranks of other processes: which boxes the network
// carries, and how they arrive while the exchange acts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/comm/remote_fetch.h"
#include "runtime/exchange/exchange_backend.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {

/// A part of an exchange, as a receiver receives it.
struct RecvPart {
  const TensorType& type;
  const Exchange& exchange;
  const std::vector<RecvRegion>& recv_regions;
};

/// A recv region in the form in which the network carries it.
struct RemoteRecvRegion {
  size_t part = 0;
  RecvRegion recv_region;  // a box that is combined in staging memory is cut into pieces
  bool in_place = false;   // is it received straight into the target?
  int batch = -1;          // of staged boxes: a sender sends its boxes of a batch as one message
};
/// The recv regions of a receiver, part after part. Sender and receiver derive the same. A box from
/// another process is received in place when it has one contribution, is dense in the receiver's
/// part, and is large or the only one of its sender. All others are staged and combined in the
/// order of the recv regions: the sums have the same bits as those of ranks in one process. Staged
/// boxes that follow each other are a batch while they are small together.
std::vector<RemoteRecvRegion> to_remote_recv_regions(
    std::span<const RecvPart> parts, Rank receiver,
    const std::function<bool(Rank sender)>& is_remote);

/// The offset of `box` in a dense tensor that holds `frame`, in elements; nullopt when the box is
/// not contiguous there.
std::optional<int64_t> dense_offset(const Box& box, const Box& frame);

/// The receiving side of an exchange with senders in other processes. start() posts receives and
/// requests the data from the senders, which answer when they have filled all that they send.
///
///   order  plan it with lanes, then pieces, then finish_plan()
class RemoteReceives : public ExchangeBackend {
 public:
  explicit RemoteReceives(RemoteFetch& fetch) : fetch_(fetch) {}
  /// Adds the connection to a sender, which is a rank of another process.
  void add_lane(int process, const FetchRequest& request);
  void add_in_place(int sender, size_t part, int64_t offset, int64_t bytes);
  /// Adds a contribution to box `box` in batch `batch`, which BoxCombine takes from source
  /// `source`.
  ///   requires  calls are in the order of the recv regions
  void add_staged(int sender, int batch, size_t box, size_t source, int64_t bytes);
  /// `boxes` is the number of boxes that are combined.
  void finish_plan(size_t boxes);
  bool receives_anything() const { return !lanes_.empty(); }
  bool has_lane(int sender) const;

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
    int process = 0;
    FetchRequest request;
  };
  struct InPlace {
    size_t lane = 0;
    size_t part = 0;
    int64_t offset = 0;  // in the target
    int64_t bytes = 0;
  };
  /// A contribution to a box: a part of the message of its lane.
  struct Piece {
    size_t lane = 0;
    size_t box = 0;
    size_t source = 0;
    int64_t offset = 0;  // in the message; in the slot once the plan is finished
  };
  /// What one lane sends of a batch.
  struct LaneMessage {
    size_t lane = 0;
    int64_t offset = 0;  // in the slot
    int64_t bytes = 0;
  };
  /// Boxes that are received together into one slot of the staging memory.
  struct Batch {
    int number = 0;
    std::vector<Piece> pieces;  // by box
    std::vector<LaneMessage> messages;
    int64_t bytes = 0;

    LaneMessage& message_of(size_t lane);
  };
  static constexpr int kMaxSlots = 4;

  size_t lane_of(int sender) const;
  int slots() const { return std::min(kMaxSlots, static_cast<int>(batches_.size())); }
  std::byte* slot(size_t batch) const;
  Countdown& in_flight(size_t batch) const { return in_flight_[batch % slots()]; }
  bool has_arrived(const Countdown& countdown) const {
    return countdown.load(std::memory_order_acquire) == 0;
  }
  bool is_here(size_t box) const;
  void post(size_t batch);
  void take_box(BoxCombination& combination);

  RemoteFetch& fetch_;
  std::vector<Lane> lanes_;
  std::vector<InPlace> in_place_;
  std::vector<Batch> batches_;
  int64_t slot_bytes_ = 0;
  // by slot of the staging memory; the last counts those in place
  std::unique_ptr<Countdown[]> in_flight_;
  std::span<std::byte* const> targets_;
  std::byte* staging_ = nullptr;
  size_t boxes_ = 0;       // boxes that are combined
  size_t next_box_ = 0;    // the next box to combine
  size_t next_batch_ = 0;  // index in batches_: that of the next staged box
  size_t next_piece_ = 0;  // in that batch
};

}  // namespace tessera
