#include "sharding/reshard/recv_regions.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "base/error.h"

namespace tessera {
namespace {

/// A part of one dim, and what it has in common with the wanted range.
struct DimPart {
  Dims indices;  // of its holders, by axis of the dim, outermost first
  Range common;
};

/// The parts of a dim that intersect `wanted`, in ascending order. No other part is visited.
std::vector<DimPart> overlapping_parts(const DimSharding& dim, const Mesh& mesh, int64_t extent,
                                       const Range& wanted) {
  std::vector<DimPart> parts;
  std::vector<AxisPart> axes;
  for (int axis : dim.axes) axes.push_back(mesh.axis_part(axis));
  Dims indices = Dims::filled(static_cast<int>(axes.size()), 0);
  int64_t chunk_begin = 0;
  const auto divide = [&](const auto& divide_part, size_t depth, Range units) -> void {
    const Range elements{chunk_begin + units.begin * dim.unit, chunk_begin + units.end * dim.unit};
    const Range common{std::max(elements.begin, wanted.begin), std::min(elements.end, wanted.end)};
    if (common.empty()) return;
    if (depth == axes.size()) {
      parts.push_back({indices, common});
      return;
    }
    for (int64_t i = 0; i < axes[depth].parts; ++i) {
      const Range part = axes[depth].part(units.size(), i);
      indices[depth] = i;
      divide_part(divide_part, depth + 1, {units.begin + part.begin, units.begin + part.end});
    }
  };
  const int64_t chunks = axes.empty() ? 1 : dim.chunks;
  for (; chunk_begin < extent; chunk_begin += extent / chunks)
    divide(divide, 0, {0, extent / chunks / dim.unit});
  return parts;
}

/// Every part of a dim with windows, in the order of the coordinates.
std::vector<DimPart> windowed_parts(const DimSharding& dim, const Split& split, int axis_count) {
  std::vector<DimPart> parts;
  DimPart part{Dims::filled(static_cast<int>(dim.axes.size()), 0), {}};
  for (bool more = true; more;) {
    Coordinate coordinate = Dims::filled(axis_count, 0);
    for (size_t i = 0; i < dim.axes.size(); ++i) coordinate[dim.axes[i]] = part.indices[i];
    part.common = split.range_at(coordinate);
    parts.push_back(part);
    more = false;
    for (size_t i = dim.axes.size(); i-- > 0 && !more;) {
      more = ++part.indices[i] < split.axes[i].parts;
      if (!more) part.indices[i] = 0;
    }
  }
  return parts;
}

/// Covers `wanted` with few parts that may overlap: from each index on, the part that reaches
/// furthest.
void cover(const std::vector<DimPart>& parts, Range wanted, std::vector<DimPart>& chosen) {
  while (!wanted.empty()) {
    const DimPart* best = nullptr;
    for (const DimPart& part : parts)
      if (part.common.begin <= wanted.begin && part.common.end > wanted.begin &&
          (!best || part.common.end > best->common.end))
        best = &part;
    ensure(best != nullptr, "the holders of a placement with windows have all that is wanted");
    const int64_t end = std::min(wanted.end, best->common.end);
    chosen.push_back({best->indices, {wanted.begin, end}});
    wanted.begin = end;
  }
}

/// Like overlapping_parts, where the parts of holders overlap: each index occurs once, and what the
/// receiver holds comes from the receiver.
///   own  the coordinate of the receiver among the holders, if it is one
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
  Dims indices;
  for (int axis : dim.axes) indices.push_back((*own)[axis]);
  chosen.push_back({indices, common});
  cover(parts, {common.end, wanted.end}, chosen);
  return chosen;
}

RecvRegion made_of(Rank sender, const Box& box, bool first, ReduceOp reduce,
                   std::type_identity<RecvRegion>) {
  return {sender, box, first, reduce};
}
RecvElements made_of(Rank sender, const Box& box, bool, ReduceOp,
                     std::type_identity<RecvElements>) {
  int64_t count = 1;
  for (const Range& range : box.ranges) count *= range.size();
  return {sender, count};
}

/// Finds the recv regions of one receiver, or their sizes.
template <class Made>
class RecvRegionFinder {
 public:
  RecvRegionFinder(const Shape& shape, const Exchange& exchange, Rank receiver,
                   Coordinate coordinate)
      : shape_(shape),
        from_(exchange.from),
        to_(exchange.to),
        receiver_(receiver),
        coordinate_(coordinate),
        resolved_(resolved_axes(from_, to_)) {}

  std::vector<Made> run() {
    for (const Piece& piece : to_.pieces(shape_, coordinate_)) {
      find_parts(piece.box);
      Box common;
      choose_part(0, Dims::filled(from_.mesh->axis_count(), 0), common);
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

  /// Visits the boxes in ascending order: the first dim changes slowest.
  void choose_part(size_t d, const Coordinate& coordinate, Box& common) {
    if (d == parts_.size()) return add_contributions(common, with_replica(coordinate));
    for (const DimPart& part : parts_[d]) {
      Coordinate next = coordinate;
      for (int i = 0; i < part.indices.size(); ++i) next[from_.dims[d].axes[i]] = part.indices[i];
      common.ranges.push_back(part.common);
      choose_part(d + 1, next, common);
      common.ranges.pop_back();
    }
  }

  /// Chooses one of the ranks that hold the same part: the receiver itself, if it is one of them.
  /// Else, on one mesh, the rank that has the coordinate of the receiver on the axes that do not
  /// divide the tensor, so that replicas share the work; between meshes, each in turn.
  Coordinate with_replica(Coordinate coordinate) const {
    if (on_one_mesh(from_, to_)) {
      for (int axis = 0; axis < coordinate.size(); ++axis)
        if (!from_.is_sharded_on(axis)) coordinate[axis] = coordinate_[axis];
      return coordinate;
    }
    const auto own = from_.mesh->coordinate_of(receiver_);
    int64_t turn = index_of_receiver();
    bool holds_itself = own.has_value();
    for (int axis = 0; axis < coordinate.size(); ++axis) {
      if (from_.is_sharded_on(axis)) {
        holds_itself = holds_itself && (*own)[axis] == coordinate[axis];
        continue;
      }
      coordinate[axis] = turn % from_.mesh->shape()[axis];
      turn /= from_.mesh->shape()[axis];
    }
    return holds_itself ? *own : coordinate;
  }

  /// A number that differs between the receivers of one part: the coordinate of the receiver, with
  /// the axes on which the target is replicated first.
  int64_t index_of_receiver() const {
    int64_t index = 0, stride = 1;
    for (bool copies : {true, false})
      for (int axis = 0; axis < coordinate_.size(); ++axis) {
        if (to_.is_sharded_on(axis) == copies) continue;
        index += coordinate_[axis] * stride;
        stride *= to_.mesh->shape()[axis];
      }
    return index;
  }

  void add_contributions(const Box& common, Coordinate coordinate) {
    if (resolved_.empty()) {
      add(coordinate, common, true, ReduceOp::kSum);
      return;
    }
    for (const PartialAxis& p : resolved_) coordinate[p.axis] = 0;
    for (bool more = true; more;) {
      const bool first = std::all_of(resolved_.begin(), resolved_.end(),
                                     [&](const PartialAxis& p) { return coordinate[p.axis] == 0; });
      add(coordinate, common, first, resolved_.front().reduce);
      more = false;
      for (auto p = resolved_.rbegin(); p != resolved_.rend() && !more; ++p) {
        more = ++coordinate[p->axis] < from_.mesh->shape()[p->axis];
        if (!more) coordinate[p->axis] = 0;
      }
    }
  }

  void add(const Coordinate& sender, const Box& box, bool first, ReduceOp reduce) {
    result_.push_back(
        made_of(from_.mesh->rank_at(sender), box, first, reduce, std::type_identity<Made>()));
  }

  const Shape& shape_;
  const DistAttr& from_;
  const DistAttr& to_;
  const Rank receiver_;
  const Coordinate coordinate_;
  const std::vector<PartialAxis> resolved_;
  std::vector<std::vector<DimPart>> parts_;  // by dim
  std::vector<Made> result_;
};

/// The bound of min_received_elements for sums of `wanted` elements over the resolved axes. Sums
/// over axes that divide the target are scattered; sums over the others are wanted whole.
int64_t min_of_sums(int64_t wanted, const std::vector<PartialAxis>& resolved, const DistAttr& to) {
  int64_t scattered = 1, whole = 1;
  for (const PartialAxis& p : resolved)
    (to.is_sharded_on(p.axis) ? scattered : whole) *= to.mesh->shape()[p.axis];
  const int64_t terms = scattered * whole;
  return wanted * scattered * (terms - 1) / terms + wanted * (whole - 1) / whole;
}

template <class Made>
std::vector<Made> found_recv_regions(const Shape& shape, const Exchange& exchange, Rank receiver) {
  const auto coordinate = exchange.to.mesh->coordinate_of(receiver);
  if (!coordinate) return {};
  for (const PartialAxis& p : started_axes(exchange.from, exchange.to))
    if ((*coordinate)[p.axis] != 0) return {};
  return RecvRegionFinder<Made>(shape, exchange, receiver, *coordinate).run();
}

}  // namespace

bool holds_all_of(const Shape& shape, const DistAttr& from, const DistAttr& to) {
  for (int d = 0; d < shape.size(); ++d) {
    const DimSharding &held = from.dims[d], &wanted = to.dims[d];
    if (held.axes.empty() || held.windows.empty() || held == wanted) continue;
    const std::vector<DimPart> parts =
        windowed_parts(held, from.split(d, shape[d]), from.mesh->axis_count());
    // A dim in chunks counts as wanted whole.
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

std::vector<RecvRegion> recv_regions(const Shape& shape, const Exchange& exchange, Rank receiver) {
  return found_recv_regions<RecvRegion>(shape, exchange, receiver);
}

std::vector<RecvElements> recv_elements(const Shape& shape, const Exchange& exchange,
                                        Rank receiver) {
  return found_recv_regions<RecvElements>(shape, exchange, receiver);
}

int64_t received_elements(const Shape& shape, const std::vector<Exchange>& exchanges,
                          Rank receiver) {
  int64_t count = 0;
  for (const Exchange& exchange : exchanges)
    for (const RecvElements& recv_region : recv_elements(shape, exchange, receiver))
      if (recv_region.sender != receiver) count += recv_region.count;
  return count;
}

int64_t min_received_elements(const Shape& shape, const DistAttr& from, const DistAttr& to,
                              Rank receiver) {
  const auto coordinate = to.mesh->coordinate_of(receiver);
  if (!coordinate) return 0;
  int64_t all = 0;
  for (const Piece& wanted : to.pieces(shape, *coordinate))
    all += element_count(wanted.box.shape());
  if (const auto resolved = resolved_axes(from, to); !resolved.empty())
    return min_of_sums(all, resolved, to);
  const auto own = from.mesh->coordinate_of(receiver);
  if (!own) return all;
  for (const Piece& wanted : to.pieces(shape, *coordinate))
    for (const Piece& held : from.pieces(shape, *own))
      all -= element_count(intersect(wanted.box, held.box).shape());
  return all;
}

}  // namespace tessera
