#include "executor/far_pulls.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

/// Bytes of a staged piece: its transfer is worth its latency, and what was received is still in
/// the cache when it is added.
constexpr int64_t kPieceBytes = 256 << 10;

/// Cuts a box along its outer dims into boxes of at most `most` elements, or of one row of the last
/// dim.
void cut(const Box& box, int64_t most, std::vector<Box>& pieces) {
  const int64_t count = element_count(box.shape());
  const auto wide = std::find_if(box.ranges.begin(), box.ranges.end(),
                                 [](const Range& range) { return range.size() > 1; });
  if (count <= most || wide == box.ranges.end()) {
    pieces.push_back(box);
    return;
  }
  const int64_t parts = std::min(wide->size(), (count + most - 1) / most);
  for (int64_t i = 0; i < parts; ++i) {
    Box piece = box;
    const Range part = balanced_part(wide->size(), parts, i);
    piece.ranges[wide - box.ranges.begin()] = {wide->begin + part.begin, wide->begin + part.end};
    cut(piece, most, pieces);
  }
}

}  // namespace

std::optional<int64_t> dense_offset(const Box& box, const Box& frame) {
  const Dims strides = row_major_strides(frame.shape());
  int64_t offset = 0;
  bool is_cut = false;  // a dim further out: those before it must be single
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
                           const std::function<bool(Rank sender)>& is_far) {
  TravellingPulls result;
  const std::vector<Piece> mine =
      exchange.to.pieces(type.shape, *exchange.to.mesh->coordinate_of(receiver));
  std::vector<Box> pieces;
  for (auto begin = pulls.begin(); begin != pulls.end();) {
    const auto end =
        std::find_if(begin + 1, pulls.end(), [](const Pull& pull) { return pull.first; });
    const bool travels =
        std::any_of(begin, end, [&](const Pull& pull) { return is_far(pull.sender); });
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

void FarPulls::add_lane(size_t port, int member, const FetchRequest& request) {
  lanes_.push_back({port, member, request});
}

size_t FarPulls::lane_of(size_t port) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [port](const Lane& lane) { return lane.port == port; });
  ensure(found != lanes_.end(), "pieces come on the lanes of their senders");
  return static_cast<size_t>(found - lanes_.begin());
}

void FarPulls::add_in_place(size_t port, int64_t offset, int64_t bytes) {
  in_place_.push_back({lane_of(port), 0, offset, bytes});
}

void FarPulls::add_staged(size_t port, size_t box, size_t source, int64_t bytes) {
  if (staged_.empty() || staged_.back().box != box) staged_.push_back({box, {}, 0});
  StagedBox& staged = staged_.back();
  staged.pieces.push_back({lane_of(port), source, staged.bytes, bytes});
  staged.bytes += (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

void FarPulls::finish_plan(size_t boxes) {
  boxes_ = boxes;
  for (const StagedBox& staged : staged_) slot_bytes_ = std::max(slot_bytes_, staged.bytes);
  in_flight_ = std::make_unique<Countdown[]>(static_cast<size_t>(slots()) + 1);
}

std::byte* FarPulls::slot(size_t staged) const {
  return staging_ + static_cast<int64_t>(staged % static_cast<size_t>(slots())) * slot_bytes_;
}

void FarPulls::post(size_t staged) {
  const StagedBox& box = staged_[staged];
  Countdown& countdown = in_flight(staged);
  countdown.store(static_cast<int>(box.pieces.size()), std::memory_order_relaxed);
  for (const Piece& piece : box.pieces) {
    const Lane& lane = lanes_[piece.lane];
    fetch_->receive(lane.member, lane.request.tag + 1,
                    {slot(staged) + piece.offset, static_cast<size_t>(piece.bytes)}, countdown);
  }
}

void FarPulls::ask_for(int64_t record, RemoteFetch& fetch, std::byte* target, std::byte* staging) {
  fetch_ = &fetch;
  target_ = target;
  staging_ = staging;
  next_box_ = next_staged_ = 0;
  Countdown& countdown = in_flight_[slots()];
  countdown.store(static_cast<int>(in_place_.size()), std::memory_order_relaxed);
  for (const Piece& piece : in_place_) {
    const Lane& lane = lanes_[piece.lane];
    fetch.receive(lane.member, lane.request.tag,
                  {target + piece.offset, static_cast<size_t>(piece.bytes)}, countdown);
  }
  for (size_t i = 0; i < static_cast<size_t>(slots()); ++i) post(i);
  for (Lane& lane : lanes_) {
    lane.request.record = record;
    fetch.request(lane.member, lane.request);
  }
}

/// Are the contributions of other members to `box` there?
bool FarPulls::is_here(size_t box) const {
  const bool is_staged = next_staged_ < staged_.size() && staged_[next_staged_].box == box;
  return !is_staged || has_arrived(in_flight(next_staged_));
}

bool FarPulls::go_on(const std::vector<BoxCombine>& boxes, std::vector<const std::byte*>& sources) {
  const size_t first = next_box_;
  for (; next_box_ < boxes_ && is_here(next_box_); ++next_box_) {
    const bool is_staged = next_staged_ < staged_.size() && staged_[next_staged_].box == next_box_;
    if (is_staged)
      for (const Piece& piece : staged_[next_staged_].pieces)
        sources[piece.source] = slot(next_staged_) + piece.offset;
    boxes[next_box_].run(target_, sources);
    if (!is_staged) continue;
    const size_t following = next_staged_++ + static_cast<size_t>(slots());
    if (following < staged_.size()) post(following);
  }
  return next_box_ > first;
}

bool FarPulls::is_over() const {
  return next_box_ == boxes_ && has_arrived(in_flight_[slots()]);
}

bool FarPulls::has_news() const {
  return next_box_ < boxes_ ? is_here(next_box_) : is_over();
}

}  // namespace tessera
