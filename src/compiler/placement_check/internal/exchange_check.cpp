#include "compiler/placement_check/internal/exchange_check.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compiler/placement_check/internal/refuse.h"
#include "compiler/placement_check/internal/texts.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_exchange(const Exchange& exchange, const std::string& what) {
  tessera::refuse("the exchange from " + to_text(exchange.from) + " to " + to_text(exchange.to) +
                  " " + what);
}

bool is_inside(const Box& inner, const Box& outer) {
  for (size_t d = 0; d < inner.ranges.size(); ++d)
    if (inner.ranges[d].begin < outer.ranges[d].begin || inner.ranges[d].end > outer.ranges[d].end)
      return false;
  return inner.ranges.size() == outer.ranges.size();
}

bool is_inside_one(const Box& inner, const std::vector<Box>& boxes) {
  return std::any_of(boxes.begin(), boxes.end(),
                     [&](const Box& box) { return is_inside(inner, box); });
}

bool overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.ranges.size(); ++d)
    if (a.ranges[d].end <= b.ranges[d].begin || b.ranges[d].end <= a.ranges[d].begin) return false;
  return true;
}

/// The check of the recv regions of one receiver.
class RecvRegionCheck {
 public:
  RecvRegionCheck(const Shape& shape, const Exchange& exchange, Rank receiver)
      : shape_(shape),
        from_(exchange.from),
        to_(exchange.to),
        receiver_(receiver),
        resolved_(resolved_axes(from_, to_)) {
    const auto coordinate = to_.mesh->coordinate_of(receiver);
    ensure(coordinate.has_value(), "placements: a receiver of an exchange is in its mesh");
    coordinate_ = *coordinate;
    for (const Piece& piece : to_.pieces(shape, coordinate_)) wanted_.push_back(piece.box);
    for (const PartialAxis& p : resolved_) contributions_ *= from_.mesh->shape()[p.axis];
  }

  void run(std::span<const RecvRegion> recv_regions) {
    if (wants_nothing()) {
      if (!recv_regions.empty())
        refuse("receives " + to_text(recv_regions.front().box) +
               " where it holds nothing or the identity");
      return;
    }
    size_t begin = 0;
    while (begin < recv_regions.size()) {
      size_t end = begin + 1;
      while (end < recv_regions.size() && !recv_regions[end].first) ++end;
      check_contributions(recv_regions.subspan(begin, end - begin));
      begin = end;
    }
    check_tiles();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    tessera::refuse("in the exchange from " + to_text(from_) + " to " + to_text(to_) + " rank " +
                    std::to_string(receiver_) + " " + what);
  }

  bool wants_nothing() const {
    return wanted_.empty() ||
           std::any_of(to_.partial.begin(), to_.partial.end(), [&](const PartialAxis& p) {
             return !from_.is_partial_on(p.axis) && coordinate_[p.axis] != 0;
           });
  }

  /// Checks the contributions to one box: the first one, and those that are reduced into it.
  void check_contributions(std::span<const RecvRegion> group) {
    const Box& box = group.front().box;
    if (!group.front().first)
      refuse("reduces into " + to_text(box) + " what nothing was copied to");
    if (box.empty() || !is_inside_one(box, wanted_))
      refuse("receives " + to_text(box) + " and wants " + boxes_text(wanted_));
    std::set<int64_t> seen;
    for (const RecvRegion& recv_region : group) {
      if (recv_region.box != box)
        refuse("reduces " + to_text(recv_region.box) + " into " + to_text(box));
      if (!recv_region.first &&
          (resolved_.empty() || recv_region.reduce != resolved_.front().reduce))
        refuse("takes the " + std::string(to_text(recv_region.reduce)) + " of contributions to " +
               to_text(box));
      if (!seen.insert(contribution_of(recv_region)).second)
        refuse("takes the same partial value of " + to_text(box) + " twice, from rank " +
               std::to_string(recv_region.sender));
    }
    if (std::ssize(seen) != contributions_)
      refuse("takes " + std::to_string(seen.size()) + " of " + std::to_string(contributions_) +
             " partial values of " + to_text(box));
    tiles_.push_back(&box);
  }

  /// The coordinate of the sender on the resolved axes, as one number.
  int64_t contribution_of(const RecvRegion& recv_region) const {
    const auto sender = from_.mesh->coordinate_of(recv_region.sender);
    if (!sender)
      refuse("receives from rank " + std::to_string(recv_region.sender) + ", which has no part");
    std::vector<Box> held;
    for (const Piece& piece : from_.pieces(shape_, *sender)) held.push_back(piece.box);
    if (!is_inside_one(recv_region.box, held))
      refuse("receives " + to_text(recv_region.box) + " from rank " +
             std::to_string(recv_region.sender) + ", which holds " + boxes_text(held));
    int64_t number = 0;
    for (const PartialAxis& p : resolved_)
      number = number * from_.mesh->shape()[p.axis] + (*sender)[p.axis];
    for (const PartialAxis& p : to_.partial)
      if (from_.is_partial_on(p.axis) && (*sender)[p.axis] != coordinate_[p.axis])
        refuse("receives from rank " + std::to_string(recv_region.sender) +
               " a partial value of another group");
    return number;
  }

  /// Checks that the boxes that are received tile those that are wanted.
  void check_tiles() {
    int64_t elements = 0;
    for (const Box* tile : tiles_) elements += element_count(tile->shape());
    const auto first_begin = [](const Box* box) {
      return box->ranges.empty() ? 0 : box->ranges.front().begin;
    };
    std::sort(tiles_.begin(), tiles_.end(),
              [&](const Box* a, const Box* b) { return first_begin(a) < first_begin(b); });
    for (size_t i = 0; i < tiles_.size(); ++i)
      for (size_t j = i + 1; j < tiles_.size(); ++j) {
        if (!tiles_[i]->ranges.empty() && first_begin(tiles_[j]) >= tiles_[i]->ranges.front().end)
          break;
        if (overlap(*tiles_[i], *tiles_[j]))
          refuse("receives " + to_text(*tiles_[i]) + " and again " + to_text(*tiles_[j]));
      }
    int64_t wanted = 0;
    for (const Box& box : wanted_) wanted += element_count(box.shape());
    if (elements != wanted)
      refuse("receives " + std::to_string(elements) + " of the " + std::to_string(wanted) +
             " elements of " + boxes_text(wanted_));
  }

  const Shape& shape_;
  const DistAttr& from_;
  const DistAttr& to_;
  const Rank receiver_;
  const std::vector<PartialAxis> resolved_;
  Coordinate coordinate_;
  std::vector<Box> wanted_;        // none of them is empty
  int64_t contributions_ = 1;      // to every element
  std::vector<const Box*> tiles_;  // one for each group of contributions
};

}  // namespace

void check_ends(const Exchange& exchange) {
  const DistAttr &from = exchange.from, &to = exchange.to;
  if (!to.partial.empty() && !(*from.mesh == *to.mesh))
    refuse_exchange(exchange, "sends partial values to another mesh");
  std::set<ReduceOp> reductions;
  for (const PartialAxis& p : from.partial) {
    reductions.insert(p.reduce);
    for (const PartialAxis& kept : to.partial)
      if (kept.axis == p.axis && kept.reduce != p.reduce)
        refuse_exchange(exchange, "turns partial values of one reduction into those of another");
  }
  if (reductions.size() > 1)
    refuse_exchange(exchange, "has partial values of two reductions at once");
}

void check_recv_regions(const Shape& shape, const Exchange& exchange, Rank receiver,
                        std::span<const RecvRegion> recv_regions) {
  RecvRegionCheck(shape, exchange, receiver).run(recv_regions);
}

}  // namespace tessera
