#include "executor/remote_receives.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

/// Bytes of a staged piece: long enough to hide the latency of its transfer, short enough to be in
/// the cache when it is combined.
constexpr int64_t kPieceBytes = 256 << 10;

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

TravellingPulls travelling(const TensorType& type, const Exchange& exchange,
                           const std::vector<Pull>& pulls, Rank receiver,
                           const std::function<bool(Rank sender)>& is_remote) {
  TravellingPulls result;
  const std::vector<Piece> mine =
      exchange.to.pieces(type.shape, *exchange.to.mesh->coordinate_of(receiver));
  std::vector<Box> pieces;
  for (auto begin = pulls.begin(); begin != pulls.end();) {
    const auto end =
        std::find_if(begin + 1, pulls.end(), [](const Pull& pull) { return pull.first; });
    const bool travels =
        std::any_of(begin, end, [&](const Pull& pull) { return is_remote(pull.sender); });
    const bool in_place = travels && end - begin == 1 &&
                          dense_offset(begin->box, piece_around(mine, begin->box).frame);
    pieces.clear();
    cut(begin->box,
        travels && !in_place ? kPieceBytes / size_of(type.dtype)
                             : element_count(begin->box.shape()),
        pieces);
    for (const Box& piece : pieces)
      for (auto pull = begin; pull != end; ++pull) {
        result.pulls.push_back({pull->sender, piece, pull->first, pull->reduce});
        result.in_place.push_back(in_place);
      }
    begin = end;
  }
  return result;
}

void RemoteReceives::add_lane(size_t port, int process, const FetchRequest& request) {
  lanes_.push_back({port, process, request});
}

size_t RemoteReceives::lane_of(size_t port) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [port](const Lane& lane) { return lane.port == port; });
  ensure(found != lanes_.end(), "pieces come on the lanes of their senders");
  return found - lanes_.begin();
}

void RemoteReceives::add_in_place(size_t port, int64_t offset, int64_t bytes) {
  in_place_.push_back({lane_of(port), 0, offset, bytes});
}

void RemoteReceives::add_staged(size_t port, size_t box, size_t source, int64_t bytes) {
  if (staged_.empty() || staged_.back().box != box) staged_.push_back({box, {}, 0});
  StagedBox& staged = staged_.back();
  staged.pieces.push_back({lane_of(port), source, staged.bytes, bytes});
  staged.bytes += align_up(bytes);
}

void RemoteReceives::finish_plan(size_t boxes) {
  boxes_ = boxes;
  for (const StagedBox& staged : staged_) slot_bytes_ = std::max(slot_bytes_, staged.bytes);
  in_flight_ = std::make_unique<Countdown[]>(slots() + 1);
}

std::byte* RemoteReceives::slot(size_t staged) const {
  return staging_ + staged % slots() * slot_bytes_;
}

void RemoteReceives::post(size_t staged) {
  const StagedBox& box = staged_[staged];
  Countdown& countdown = in_flight(staged);
  countdown.store(static_cast<int>(box.pieces.size()), std::memory_order_relaxed);
  for (const Piece& piece : box.pieces) {
    const Lane& lane = lanes_[piece.lane];
    fetch_.receive(lane.process, lane.request.tag + 1,
                   {slot(staged) + piece.offset, static_cast<size_t>(piece.bytes)}, countdown);
  }
}

void RemoteReceives::start(int64_t iteration, const Buffers& buffers) {
  target_ = buffers.target;
  staging_ = buffers.staging;
  next_box_ = next_staged_ = 0;
  Countdown& countdown = in_flight_[slots()];
  countdown.store(static_cast<int>(in_place_.size()), std::memory_order_relaxed);
  for (const Piece& piece : in_place_) {
    const Lane& lane = lanes_[piece.lane];
    fetch_.receive(lane.process, lane.request.tag,
                   {target_ + piece.offset, static_cast<size_t>(piece.bytes)}, countdown);
  }
  for (int i = 0; i < slots(); ++i) post(i);
  for (Lane& lane : lanes_) {
    lane.request.record = iteration;
    fetch_.request(lane.process, lane.request);
  }
}

/// Are the contributions of other processes to `box` here?
bool RemoteReceives::is_here(size_t box) const {
  const bool is_staged = next_staged_ < staged_.size() && staged_[next_staged_].box == box;
  return !is_staged || has_arrived(in_flight(next_staged_));
}

bool RemoteReceives::advance(BoxCombination& combination) {
  const size_t first = next_box_;
  for (; next_box_ < boxes_ && is_here(next_box_); ++next_box_) {
    const bool is_staged = next_staged_ < staged_.size() && staged_[next_staged_].box == next_box_;
    if (is_staged)
      for (const Piece& piece : staged_[next_staged_].pieces)
        combination.sources[piece.source] = slot(next_staged_) + piece.offset;
    combination.boxes[next_box_].run(target_, combination.sources);
    if (!is_staged) continue;
    const size_t following = next_staged_++ + slots();
    if (following < staged_.size()) post(following);
  }
  return next_box_ > first;
}

bool RemoteReceives::is_over() const {
  return next_box_ == boxes_ && has_arrived(in_flight_[slots()]);
}

bool RemoteReceives::has_news() const {
  return next_box_ < boxes_ ? is_here(next_box_) : is_over();
}

}  // namespace tessera
