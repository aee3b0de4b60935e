// Which boxes a receiver takes from whom: exact overlaps of what it wants with what others hold.
#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "reshard/chains.h"

namespace tessera {
namespace {

/// A part of one dim: where its holders stand on the axes that divide the dim, and what it shares
/// with what is wanted.
struct DimPart {
  std::vector<int64_t> places;  // by axis of the dim, outermost first
  Range common;
};

/// The parts of a dim that share something with `wanted`, in ascending order. Only those are looked
/// at.
std::vector<DimPart> overlapping_parts(const DimSharding& dim, const Mesh& mesh, int64_t extent,
                                       const Range& wanted) {
  std::vector<DimPart> parts;
  std::vector<int64_t> places;
  int64_t chunk_begin = 0;
  const std::function<void(Range)> divide = [&](Range units) {
    const Range elements{chunk_begin + units.begin * dim.unit, chunk_begin + units.end * dim.unit};
    const Range common{std::max(elements.begin, wanted.begin), std::min(elements.end, wanted.end)};
    if (common.empty()) return;
    if (places.size() == dim.axes.size()) {
      parts.push_back({places, common});
      return;
    }
    const int64_t count = mesh.shape()[dim.axes[places.size()]];
    for (int64_t i = 0; i < count; ++i) {
      const Range part = balanced_part(units.size(), count, i);
      places.push_back(i);
      divide({units.begin + part.begin, units.begin + part.end});
      places.pop_back();
    }
  };
  const int64_t chunks = dim.axes.empty() ? 1 : dim.chunks;
  for (; chunk_begin < extent; chunk_begin += extent / chunks)
    divide({0, extent / chunks / dim.unit});
  return parts;
}

/// Every part of a dim with windows, in the order of the places.
std::vector<DimPart> windowed_parts(const DimSharding& dim, const Split& split, int axis_count) {
  std::vector<DimPart> parts;
  DimPart part{std::vector<int64_t>(dim.axes.size(), 0), {}};
  for (bool more = true; more;) {
    Coordinate place = Dims::filled(axis_count, 0);
    for (size_t i = 0; i < dim.axes.size(); ++i) place[dim.axes[i]] = part.places[i];
    part.common = split.range_at(place);
    parts.push_back(part);
    more = false;
    for (size_t i = dim.axes.size(); i-- > 0 && !more;) {
      more = ++part.places[i] < split.axes[i].parts;
      if (!more) part.places[i] = 0;
    }
  }
  return parts;
}

/// Covers `wanted` with parts that may overlap: from each index on the part that reaches furthest,
/// so that they are few.
void cover(const std::vector<DimPart>& parts, Range wanted, std::vector<DimPart>& chosen) {
  while (!wanted.empty()) {
    const DimPart* best = nullptr;
    for (const DimPart& part : parts)
      if (part.common.begin <= wanted.begin && part.common.end > wanted.begin &&
          (!best || part.common.end > best->common.end))
        best = &part;
    ensure(best != nullptr, "the holders of a placement with windows have all that is wanted");
    const int64_t end = std::min(wanted.end, best->common.end);
    chosen.push_back({best->places, {wanted.begin, end}});
    wanted.begin = end;
  }
}

/// Like overlapping_parts where holders overlap: each index once, what the receiver holds itself
/// from there. `own`: its place among the holders, if it is one.
std::vector<DimPart> chosen_parts(const DimSharding& dim, const Split& split, const Mesh& mesh,
                                  const Range& wanted, const std::optional<Coordinate>& own) {
  const std::vector<DimPart> parts = windowed_parts(dim, split, mesh.axis_count());
  std::vector<DimPart> chosen;
  const Range held = own ? split.range_at(*own) : Range{};
  const Range common{std::max(held.begin, wanted.begin), std::min(held.end, wanted.end)};
  if (common.empty()) {
    cover(parts, wanted, chosen);
    return chosen;
  }
  cover(parts, {wanted.begin, common.begin}, chosen);
  std::vector<int64_t> places;
  for (int axis : dim.axes) places.push_back((*own)[axis]);
  chosen.push_back({std::move(places), common});
  cover(parts, {common.end, wanted.end}, chosen);
  return chosen;
}

bool shards(const DistAttr& attr, int axis) {
  return attr.uses(axis) && !attr.is_partial_on(axis);
}

class PullFinder {
 public:
  PullFinder(const Shape& shape, const Exchange& exchange, Rank receiver, Coordinate place)
      : shape_(shape),
        from_(exchange.from),
        to_(exchange.to),
        receiver_(receiver),
        place_(place),
        resolved_(resolved_axes(from_, to_)) {}

  std::vector<Pull> run() {
    for (const Piece& piece : to_.pieces(shape_, place_)) {
      find_parts(piece.box);
      choose_part(0, Dims::filled(from_.mesh->axis_count(), 0), {});
    }
    return std::move(result_);
  }

 private:
  void find_parts(const Box& wanted) {
    parts_.clear();
    const auto own = from_.mesh->coordinate_of(receiver_);
    for (int d = 0; d < shape_.size(); ++d) {
      const DimSharding& dim = from_.dims[d];
      const Range& range = wanted.ranges[d];
      parts_.push_back(dim.axes.empty() || dim.windows.empty()
                           ? overlapping_parts(dim, *from_.mesh, shape_[d], range)
                           : chosen_parts(dim, from_.split(d, shape_[d]), *from_.mesh, range, own));
    }
  }

  /// Goes over the boxes, the first dim slowest: ascending.
  void choose_part(size_t d, Coordinate coordinate, Box common) {
    if (d == parts_.size()) return add_contributions(common, with_replica(coordinate));
    for (const DimPart& part : parts_[d]) {
      Coordinate next = coordinate;
      for (size_t i = 0; i < part.places.size(); ++i) next[from_.dims[d].axes[i]] = part.places[i];
      Box box = common;
      box.ranges.push_back(part.common);
      choose_part(d + 1, next, std::move(box));
    }
  }

  /// Of those that hold the same: the receiver itself; on its own mesh who stands where it stands,
  /// so that replicas share the work; of another mesh each in turn.
  Coordinate with_replica(Coordinate coordinate) const {
    if (on_one_mesh(from_, to_)) {
      for (int axis = 0; axis < coordinate.size(); ++axis)
        if (!shards(from_, axis)) coordinate[axis] = place_[axis];
      return coordinate;
    }
    const auto own = from_.mesh->coordinate_of(receiver_);
    int64_t turn = index_of_receiver();
    bool holds_itself = own.has_value();
    for (int axis = 0; axis < coordinate.size(); ++axis) {
      if (shards(from_, axis)) {
        holds_itself = holds_itself && (*own)[axis] == coordinate[axis];
        continue;
      }
      coordinate[axis] = turn % from_.mesh->shape()[axis];
      turn /= from_.mesh->shape()[axis];
    }
    return holds_itself ? *own : coordinate;
  }

  /// A number that differs between those that want the same part: where the receiver stands on the
  /// axes on which the target is copied first.
  int64_t index_of_receiver() const {
    int64_t index = 0, stride = 1;
    for (bool copies : {true, false})
      for (int axis = 0; axis < place_.size(); ++axis) {
        if (shards(to_, axis) == copies) continue;
        index += place_[axis] * stride;
        stride *= to_.mesh->shape()[axis];
      }
    return index;
  }

  void add_contributions(const Box& common, Coordinate coordinate) {
    if (resolved_.empty()) {
      result_.push_back({from_.mesh->rank_at(coordinate), common, true, ReduceOp::kSum});
      return;
    }
    for (const PartialAxis& p : resolved_) coordinate[p.axis] = 0;
    for (bool more = true; more;) {
      const bool first = std::all_of(resolved_.begin(), resolved_.end(),
                                     [&](const PartialAxis& p) { return coordinate[p.axis] == 0; });
      result_.push_back({from_.mesh->rank_at(coordinate), common, first, resolved_.front().reduce});
      more = false;
      for (auto p = resolved_.rbegin(); p != resolved_.rend() && !more; ++p) {
        more = ++coordinate[p->axis] < from_.mesh->shape()[p->axis];
        if (!more) coordinate[p->axis] = 0;
      }
    }
  }

  const Shape& shape_;
  const DistAttr& from_;
  const DistAttr& to_;
  const Rank receiver_;
  const Coordinate place_;
  const std::vector<PartialAxis> resolved_;
  std::vector<std::vector<DimPart>> parts_;  // by dim
  std::vector<Pull> result_;
};

/// Sums of `wanted` elements over the resolved axes: the axes that divide the target scatter them,
/// the others want them whole.
int64_t least_of_sums(int64_t wanted, const std::vector<PartialAxis>& resolved,
                      const DistAttr& to) {
  int64_t scattered = 1, whole = 1;
  for (const PartialAxis& p : resolved)
    (shards(to, p.axis) ? scattered : whole) *= to.mesh->shape()[p.axis];
  const int64_t addends = scattered * whole;
  return wanted * scattered * (addends - 1) / addends + wanted * (whole - 1) / whole;
}

}  // namespace

bool holds_all_of(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  for (int d = 0; d < shape.size(); ++d) {
    const DimSharding &held = from.dims[d], &wanted = to.dims[d];
    if (held.axes.empty() || held.windows.empty() || held == wanted) continue;
    const std::vector<DimPart> parts =
        windowed_parts(held, from.split(d, shape[d]), from.mesh->axis_count());
    // Chunks of it are taken for all of it.
    const Split split = wanted.chunks > 1 ? Split{shape[d], 1, {}} : to.split(d, shape[d]);
    for (const DimPart& part :
         windowed_parts(wanted.chunks > 1 ? DimSharding{} : wanted, split, to.mesh->axis_count()))
      for (int64_t at = part.common.begin, reach = at; at < part.common.end; at = reach) {
        for (const DimPart& holder : parts)
          if (holder.common.begin <= at) reach = std::max(reach, holder.common.end);
        if (reach == at) return false;
      }
  }
  return true;
}

std::vector<Pull> pulls(const Shape& shape, const Exchange& exchange, Rank receiver) {
  const auto place = exchange.to.mesh->coordinate_of(receiver);
  if (!place) return {};
  for (const PartialAxis& p : started_axes(exchange.from, exchange.to))
    if ((*place)[p.axis] != 0) return {};
  return PullFinder(shape, exchange, receiver, *place).run();
}

int64_t received_elements(const Shape& shape, const std::vector<Exchange>& exchanges,
                          Rank receiver) {
  int64_t count = 0;
  for (const Exchange& exchange : exchanges)
    for (const Pull& pull : pulls(shape, exchange, receiver))
      if (pull.sender != receiver) count += element_count(pull.box.shape());
  return count;
}

int64_t least_received_elements(const Shape& shape, const DistAttr& from, const DistAttr& to,
                                Rank receiver) {
  const auto place = to.mesh->coordinate_of(receiver);
  if (!place) return 0;
  int64_t all = 0;
  for (const Piece& wanted : to.pieces(shape, *place)) all += element_count(wanted.box.shape());
  if (const auto resolved = resolved_axes(from, to); !resolved.empty())
    return least_of_sums(all, resolved, to);
  const auto own = from.mesh->coordinate_of(receiver);
  if (!own) return all;
  for (const Piece& wanted : to.pieces(shape, *place))
    for (const Piece& held : from.pieces(shape, *own))
      all -= element_count(intersect(wanted.box, held.box).shape());
  return all;
}

}  // namespace tessera
