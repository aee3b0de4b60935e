#include "runtime/exchange/remote_receives.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tessera {
namespace {

/// The bytes of a staged piece: enough to hide the latency of its transfer, and few enough to be in
/// the cache when it is combined.
constexpr int64_t kPieceBytes = 256 << 10;

/// A dense box with fewer bytes is staged with the other boxes of its exchange: one more copy costs
/// less than one more message.
constexpr int64_t kInPlaceBytes = 32 << 10;

/// Several boxes share a message up to this size. The sender packs them, and has memory for that by
/// receiver.
constexpr int64_t kSharedBytes = 64 << 10;

/// Cuts a box along its outer dims into boxes of at most `max_count` elements, or of one row of the
/// last dim.
void cut(const Box& box, int64_t max_count, std::vector<Box>& pieces) {
  const int64_t count = element_count(box.shape());
  const auto cut_dim = std::find_if(box.ranges.begin(), box.ranges.end(),
                                    [](const Range& range) { return range.size() > 1; });
  if (count <= max_count || cut_dim == box.ranges.end()) {
    pieces.push_back(box);
    return;
  }
  const int64_t parts = std::min(cut_dim->size(), (count + max_count - 1) / max_count);
  for (int64_t i = 0; i < parts; ++i) {
    Box piece = box;
    const Range part = balanced_part(cut_dim->size(), parts, i);
    piece.ranges[cut_dim - box.ranges.begin()] = {cut_dim->begin + part.begin,
                                                  cut_dim->begin + part.end};
    cut(piece, max_count, pieces);
  }
}

}  // namespace

std::optional<int64_t> dense_offset(const Box& box, const Box& frame) {
  const Dims strides = row_major_strides(frame.shape());
  int64_t offset = 0;
  bool is_cut = false;  // is a dim inside of this one cut? Then this one must have size 1
  for (int d = strides.size() - 1; d >= 0; --d) {
    const Range& part = box.ranges[d];
    const Range& whole = frame.ranges[d];
    if (is_cut && part.size() > 1) return std::nullopt;
    is_cut = is_cut || part.size() < whole.size();
    offset += (part.begin - whole.begin) * strides[d];
  }
  return offset;
}

namespace {

/// Puts the recv regions of all parts into the form in which they are sent.
class Packer {
 public:
  Packer(std::span<const RecvPart> parts, Rank receiver,
         const std::function<bool(Rank sender)>& is_remote)
      : receiver_(receiver), is_remote_(is_remote) {
    for (const RecvPart& part : parts)
      for (const RecvRegion& recv_region : part.recv_regions) ++boxes_of_[recv_region.sender];
    for (size_t part = 0; part < parts.size(); ++part) add(part, parts[part]);
  }
  std::vector<RemoteRecvRegion> take() { return std::move(result_); }

 private:
  void add(size_t index, const RecvPart& part) {
    const std::vector<Piece> mine =
        part.exchange.to.pieces(part.type.shape, *part.exchange.to.mesh->coordinate_of(receiver_));
    for (auto begin = part.recv_regions.begin(); begin != part.recv_regions.end();) {
      const auto end =
          std::find_if(begin + 1, part.recv_regions.end(),
                       [](const RecvRegion& recv_region) { return recv_region.first; });
      const bool is_dense =
          end - begin == 1 && dense_offset(begin->box, piece_around(mine, begin->box).frame);
      add_box(index, part.type, {begin, end}, is_dense);
      begin = end;
    }
  }

  void add_box(size_t part, const TensorType& type, std::span<const RecvRegion> contributions,
               bool is_dense) {
    const Box& box = contributions.front().box;
    const int64_t bytes = element_count(box.shape()) * size_of(type.dtype);
    const bool travels =
        std::any_of(contributions.begin(), contributions.end(),
                    [&](const RecvRegion& recv_region) { return is_remote_(recv_region.sender); });
    const bool in_place =
        travels && is_dense &&
        (boxes_of_.at(contributions.front().sender) == 1 || bytes >= kInPlaceBytes);
    const bool is_staged = travels && !in_place;
    std::vector<Box> pieces;
    cut(box, (is_staged ? kPieceBytes : bytes) / size_of(type.dtype), pieces);
    for (const Box& piece : pieces) {
      const int batch =
          is_staged ? batch_for(element_count(piece.shape()) * size_of(type.dtype)) : -1;
      for (const RecvRegion& recv_region : contributions)
        result_.push_back({part,
                           {recv_region.sender, piece, recv_region.first, recv_region.reduce},
                           in_place,
                           batch});
    }
  }

  int batch_for(int64_t bytes) {
    if (batch_ < 0 || batch_bytes_ + align_up(bytes) > kSharedBytes) ++batch_, batch_bytes_ = 0;
    batch_bytes_ += align_up(bytes);
    return batch_;
  }

  const Rank receiver_;
  const std::function<bool(Rank sender)>& is_remote_;
  std::map<Rank, int> boxes_of_;  // by sender, of the whole exchange
  std::vector<RemoteRecvRegion> result_;
  int batch_ = -1;
  int64_t batch_bytes_ = 0;
};

}  // namespace

std::vector<RemoteRecvRegion> to_remote_recv_regions(
    std::span<const RecvPart> parts, Rank receiver,
    const std::function<bool(Rank sender)>& is_remote) {
  return Packer(parts, receiver, is_remote).take();
}

void RemoteReceives::add_lane(int process, const FetchRequest& request) {
  lanes_.push_back({process, request});
}

bool RemoteReceives::has_lane(int sender) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [sender](const Lane& lane) { return lane.request.sender == sender; });
}

size_t RemoteReceives::lane_of(int sender) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [sender](const Lane& lane) {
    return lane.request.sender == sender;
  });
  ensure(found != lanes_.end(), "pieces come on the lanes of their senders");
  return found - lanes_.begin();
}

void RemoteReceives::add_in_place(int sender, size_t part, int64_t offset, int64_t bytes) {
  in_place_.push_back({lane_of(sender), part, offset, bytes});
}

RemoteReceives::LaneMessage& RemoteReceives::Batch::message_of(size_t lane) {
  const auto found = std::find_if(messages.begin(), messages.end(),
                                  [lane](const LaneMessage& it) { return it.lane == lane; });
  return found != messages.end() ? *found : messages.emplace_back(LaneMessage{lane, 0, 0});
}

void RemoteReceives::add_staged(int sender, int batch, size_t box, size_t source, int64_t bytes) {
  if (batches_.empty() || batches_.back().number != batch) batches_.push_back({batch, {}, {}, 0});
  const size_t lane = lane_of(sender);
  LaneMessage& message = batches_.back().message_of(lane);
  const int64_t begin = align_up(message.bytes);
  batches_.back().pieces.push_back({lane, box, source, begin});
  message.bytes = begin + bytes;
}

void RemoteReceives::finish_plan(size_t boxes) {
  boxes_ = boxes;
  for (Batch& batch : batches_) {
    for (LaneMessage& message : batch.messages) {
      message.offset = batch.bytes;
      batch.bytes += align_up(message.bytes);
    }
    for (Piece& piece : batch.pieces) piece.offset += batch.message_of(piece.lane).offset;
    slot_bytes_ = std::max(slot_bytes_, batch.bytes);
  }
  in_flight_ = std::make_unique<Countdown[]>(slots() + 1);
}

std::byte* RemoteReceives::slot(size_t batch) const {
  return staging_ + batch % slots() * slot_bytes_;
}

void RemoteReceives::post(size_t batch) {
  const std::vector<LaneMessage>& messages = batches_[batch].messages;
  Countdown& countdown = in_flight(batch);
  countdown.store(static_cast<int>(messages.size()), std::memory_order_relaxed);
  for (const LaneMessage& message : messages) {
    const Lane& lane = lanes_[message.lane];
    fetch_.receive(lane.process, lane.request.tag + 1,
                   {slot(batch) + message.offset, static_cast<size_t>(message.bytes)}, countdown);
  }
}

void RemoteReceives::start(int64_t iteration, const Buffers& buffers) {
  targets_ = buffers.targets;
  staging_ = buffers.staging;
  next_box_ = next_batch_ = next_piece_ = 0;
  Countdown& countdown = in_flight_[slots()];
  countdown.store(static_cast<int>(in_place_.size()), std::memory_order_relaxed);
  for (const InPlace& piece : in_place_) {
    const Lane& lane = lanes_[piece.lane];
    fetch_.receive(lane.process, lane.request.tag,
                   {targets_[piece.part] + piece.offset, static_cast<size_t>(piece.bytes)},
                   countdown);
  }
  for (int i = 0; i < slots(); ++i) post(i);
  for (Lane& lane : lanes_) {
    lane.request.iteration = iteration;
    fetch_.request(lane.process, lane.request);
  }
}

/// Have the contributions of other processes to `box` arrived?
bool RemoteReceives::is_here(size_t box) const {
  if (next_batch_ == batches_.size()) return true;
  const bool is_staged = batches_[next_batch_].pieces[next_piece_].box == box;
  return !is_staged || has_arrived(in_flight(next_batch_));
}

/// Points the sources of the next box to its contributions, and combines it.
void RemoteReceives::take_box(BoxCombination& combination) {
  if (next_batch_ == batches_.size()) return combination.run(next_box_);
  const std::vector<Piece>& pieces = batches_[next_batch_].pieces;
  for (; next_piece_ < pieces.size() && pieces[next_piece_].box == next_box_; ++next_piece_)
    combination.sources[pieces[next_piece_].source] =
        slot(next_batch_) + pieces[next_piece_].offset;
  combination.run(next_box_);
  if (next_piece_ < pieces.size()) return;
  next_piece_ = 0;
  const size_t following = next_batch_++ + slots();
  if (following < batches_.size()) post(following);
}

bool RemoteReceives::advance(BoxCombination& combination) {
  const size_t first = next_box_;
  for (; next_box_ < boxes_ && is_here(next_box_); ++next_box_) take_box(combination);
  return next_box_ > first;
}

bool RemoteReceives::is_over() const {
  return next_box_ == boxes_ && has_arrived(in_flight_[slots()]);
}

bool RemoteReceives::has_news() const {
  return next_box_ < boxes_ ? is_here(next_box_) : is_over();
}

}  // namespace tessera
