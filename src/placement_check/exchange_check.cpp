#include "placement_check/exchange_check.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace tessera {
namespace {

/// Meshes up to this size are looked at everywhere.
constexpr int kSmallMesh = 32;
/// Of larger ones so many places are spread over the ranks, and at most so many are corners.
constexpr int kSampled = 16;

const PartialAxis* find_partial(const DistAttr& attr, int axis) {
  for (const PartialAxis& p : attr.partial)
    if (p.axis == axis) return &p;
  return nullptr;
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

std::string text_of(const std::vector<Box>& boxes) {
  std::vector<std::string> texts;
  for (const Box& box : boxes) texts.push_back(to_text(box));
  return texts.empty() ? "nothing" : join(texts, " and ");
}

bool overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.ranges.size(); ++d)
    if (a.ranges[d].end <= b.ranges[d].begin || b.ranges[d].end <= a.ranges[d].begin) return false;
  return true;
}

class PullCheck {
 public:
  PullCheck(const Shape& shape, const Exchange& exchange, Rank receiver)
      : shape_(shape), from_(exchange.from), to_(exchange.to), receiver_(receiver) {
    const auto place = to_.mesh->coordinate_of(receiver);
    ensure(place.has_value(), "placements: a receiver of an exchange is in its mesh");
    place_ = *place;
    for (const Piece& piece : to_.pieces(shape, place_)) wanted_.push_back(piece.box);
    for (const PartialAxis& p : from_.partial) {
      if (!find_partial(to_, p.axis)) {
        resolved_.push_back(p);
        contributions_ *= from_.mesh->shape()[p.axis];
      }
    }
  }

  void run(std::span<const Pull> pulls) {
    if (wants_nothing()) {
      if (!pulls.empty())
        refuse("pulls " + to_text(pulls.front().box) + " where it holds nothing or the identity");
      return;
    }
    size_t begin = 0;
    while (begin < pulls.size()) {
      size_t end = begin + 1;
      while (end < pulls.size() && !pulls[end].first) ++end;
      check_contributions(pulls.subspan(begin, end - begin));
      begin = end;
    }
    check_tiles();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InternalError("placements: in the exchange from " + to_text(from_) + " to " +
                        to_text(to_) + " rank " + std::to_string(receiver_) + " " + what);
  }

  bool wants_nothing() const {
    return wanted_.empty() ||
           std::any_of(to_.partial.begin(), to_.partial.end(), [&](const PartialAxis& p) {
             return !find_partial(from_, p.axis) && place_[p.axis] != 0;
           });
  }

  /// The contributions to one box: a first one, and those that are reduced into it.
  void check_contributions(std::span<const Pull> group) {
    const Box& box = group.front().box;
    if (!group.front().first)
      refuse("reduces into " + to_text(box) + " what nothing was copied to");
    if (box.empty() || !is_inside_one(box, wanted_))
      refuse("pulls " + to_text(box) + " and wants " + text_of(wanted_));
    std::set<int64_t> seen;
    for (const Pull& pull : group) {
      if (pull.box != box) refuse("reduces " + to_text(pull.box) + " into " + to_text(box));
      if (!pull.first && (resolved_.empty() || pull.reduce != resolved_.front().reduce))
        refuse("takes the " + std::string(to_text(pull.reduce)) + " of contributions to " +
               to_text(box));
      if (!seen.insert(contribution_of(pull)).second)
        refuse("takes the same addend of " + to_text(box) + " twice, from rank " +
               std::to_string(pull.sender));
    }
    if (static_cast<int64_t>(seen.size()) != contributions_)
      refuse("takes " + std::to_string(seen.size()) + " of " + std::to_string(contributions_) +
             " addends of " + to_text(box));
    tiles_.push_back(&box);
  }

  /// Where the sender stands on the resolved axes, as one number.
  int64_t contribution_of(const Pull& pull) const {
    const auto sender = from_.mesh->coordinate_of(pull.sender);
    if (!sender) refuse("pulls from rank " + std::to_string(pull.sender) + ", which has no part");
    std::vector<Box> held;
    for (const Piece& piece : from_.pieces(shape_, *sender)) held.push_back(piece.box);
    if (!is_inside_one(pull.box, held))
      refuse("pulls " + to_text(pull.box) + " from rank " + std::to_string(pull.sender) +
             ", which holds " + text_of(held));
    int64_t number = 0;
    for (const PartialAxis& p : resolved_)
      number = number * from_.mesh->shape()[p.axis] + (*sender)[p.axis];
    for (const PartialAxis& p : to_.partial)
      if (find_partial(from_, p.axis) && (*sender)[p.axis] != place_[p.axis])
        refuse("pulls from rank " + std::to_string(pull.sender) + " an addend that is not its own");
    return number;
  }

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
          refuse("pulls " + to_text(*tiles_[i]) + " and again " + to_text(*tiles_[j]));
      }
    int64_t wanted = 0;
    for (const Box& box : wanted_) wanted += element_count(box.shape());
    if (elements != wanted)
      refuse("pulls " + std::to_string(elements) + " of the " + std::to_string(wanted) +
             " elements of " + text_of(wanted_));
  }

  const Shape& shape_;
  const DistAttr& from_;
  const DistAttr& to_;
  const Rank receiver_;
  Coordinate place_;
  std::vector<Box> wanted_;  // none that is empty
  std::vector<PartialAxis> resolved_;
  int64_t contributions_ = 1;      // to every element
  std::vector<const Box*> tiles_;  // one for each group of contributions
};

}  // namespace

std::vector<Coordinate> sampled_coordinates(const Mesh& mesh) {
  std::set<int> places;
  const bool is_small = mesh.size() <= kSmallMesh;
  // An odd stride does not stay at one index of an axis of even size.
  const int stride = is_small ? 1 : ((mesh.size() + kSampled - 1) / kSampled) | 1;
  for (int i = 0; i < mesh.size(); i += stride) places.insert(i);
  int64_t corners = 1;
  for (int axis = 0; axis < mesh.axis_count() && corners < kSampled; ++axis) corners *= 2;
  for (int64_t corner = 0; !is_small && corner < corners; ++corner) {
    int64_t place = 0;
    for (int axis = 0; axis < mesh.axis_count(); ++axis)
      place = place * mesh.shape()[axis] + ((corner >> axis) % 2 ? mesh.shape()[axis] - 1 : 0);
    places.insert(static_cast<int>(place));
  }
  std::vector<Coordinate> coordinates;
  for (int place : places) coordinates.push_back(mesh.coordinate_at(place));
  return coordinates;
}

void check_ends(const Exchange& exchange) {
  const auto refuse = [&](const std::string& what) {
    throw InternalError("placements: the exchange from " + to_text(exchange.from) + " to " +
                        to_text(exchange.to) + " " + what);
  };
  if (!exchange.to.partial.empty() && !(*exchange.from.mesh == *exchange.to.mesh))
    refuse("moves addends to another mesh");
  std::set<ReduceOp> reductions;
  for (const PartialAxis& p : exchange.from.partial) {
    reductions.insert(p.reduce);
    const PartialAxis* kept = find_partial(exchange.to, p.axis);
    if (kept && kept->reduce != p.reduce) refuse("makes addends of one reduction those of another");
  }
  if (reductions.size() > 1) refuse("has addends of two reductions at once");
}

void check_pulls(const Shape& shape, const Exchange& exchange, Rank receiver,
                 std::span<const Pull> pulls) {
  PullCheck(shape, exchange, receiver).run(pulls);
}

}  // namespace tessera
