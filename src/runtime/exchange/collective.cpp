#include "runtime/exchange/collective.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "runtime/exchange/remote_receives.h"

namespace tessera {
namespace {

/// The data that one rank gives and receives, and its senders.
struct Part {
  Box from, to;
  std::vector<RecvRegion> recv_regions;
  std::vector<Rank> senders;  // ascending
};

/// The box of a rank, when it has a single box that fills its memory.
std::optional<Box> dense_box(const DistAttr& attr, const Shape& shape, Rank rank) {
  const auto coordinate = attr.mesh->coordinate_of(rank);
  if (!coordinate) return std::nullopt;
  const std::vector<Piece> pieces = attr.pieces(shape, *coordinate);
  if (pieces.size() != 1 || !(pieces.front().box == pieces.front().frame)) return std::nullopt;
  return pieces.front().box;
}

std::optional<Part> part_of(const Shape& shape, const Exchange& exchange, Rank rank) {
  const auto from = dense_box(exchange.from, shape, rank), to = dense_box(exchange.to, shape, rank);
  if (!from || !to) return std::nullopt;
  Part part{*from, *to, recv_regions(shape, exchange, rank), {}};
  for (const RecvRegion& recv_region : part.recv_regions)
    part.senders.push_back(recv_region.sender);
  std::sort(part.senders.begin(), part.senders.end());
  part.senders.erase(std::unique(part.senders.begin(), part.senders.end()), part.senders.end());
  return part;
}

/// The parts of the receiver's group, by rank; empty when its ranks do not all receive from the
/// same ranks.
std::vector<Part> group_of(const Shape& shape, const Exchange& exchange, Rank receiver) {
  const auto own = part_of(shape, exchange, receiver);
  if (!own || own->senders.size() < 2) return {};
  std::vector<Part> group;
  for (Rank rank : own->senders) {
    const auto part = part_of(shape, exchange, rank);
    if (!part || part->senders != own->senders) return {};
    group.push_back(*part);
  }
  return std::find(own->senders.begin(), own->senders.end(), receiver) == own->senders.end()
             ? std::vector<Part>()
             : group;
}

/// Does `part` sum each of its boxes over the whole group?
bool sums_all(const Part& part, size_t group) {
  const size_t boxes =
      std::count_if(part.recv_regions.begin(), part.recv_regions.end(),
                    [](const RecvRegion& recv_region) { return recv_region.first; });
  return part.recv_regions.size() == boxes * group &&
         std::all_of(
             part.recv_regions.begin(), part.recv_regions.end(),
             [](const RecvRegion& recv_region) { return recv_region.reduce == ReduceOp::kSum; });
}

/// Does `part` receive all the data that each rank of the group gives?
bool gathers_all(const Part& part, const std::vector<Part>& group) {
  return part.recv_regions.size() == group.size() &&
         std::all_of(part.recv_regions.begin(), part.recv_regions.end(),
                     [&](const RecvRegion& recv_region) {
                       const auto at = std::lower_bound(part.senders.begin(), part.senders.end(),
                                                        recv_region.sender) -
                                       part.senders.begin();
                       return recv_region.first && recv_region.box == group[at].from;
                     });
}

/// The number of elements of each box, when the boxes are contiguous, follow each other and fill
/// `whole`.
std::optional<std::vector<int>> counts_in(const Box& whole, const std::vector<Box>& boxes) {
  std::vector<int> counts;
  int64_t end = 0;
  for (const Box& box : boxes) {
    const auto offset = dense_offset(box, whole);
    if (!offset || *offset != end) return std::nullopt;
    counts.push_back(static_cast<int>(element_count(box.shape())));
    end += counts.back();
  }
  return end == element_count(whole.shape()) ? std::optional(counts) : std::nullopt;
}

}  // namespace

std::optional<Collective> find_collective(const TensorType& type, const Exchange& exchange,
                                          Rank receiver,
                                          const std::function<int(Rank)>& process_of) {
  const bool begins_partial = std::any_of(
      exchange.to.partial.begin(), exchange.to.partial.end(),
      [&](const PartialAxis& partial) { return !exchange.from.is_partial_on(partial.axis); });
  if (begins_partial || element_count(type.shape) > std::numeric_limits<int>::max())
    return std::nullopt;
  const std::vector<Part> group = group_of(type.shape, exchange, receiver);
  if (group.empty()) return std::nullopt;
  Collective found{.dtype = type.dtype};
  for (Rank rank : group.front().senders) found.processes.push_back(process_of(rank));
  if (!std::is_sorted(found.processes.begin(), found.processes.end())) return std::nullopt;
  const auto all = [&](const auto& holds) {
    return std::all_of(group.begin(), group.end(), holds);
  };
  std::vector<Box> from, to;
  for (const Part& part : group) from.push_back(part.from), to.push_back(part.to);
  // Libraries round a sum of 16 bits after each addition.
  const bool may_add = type.dtype == DType::kF32 || type.dtype == DType::kI32;
  const bool is_sum = may_add &&
                      all([&](const Part& part) { return sums_all(part, group.size()); }) &&
                      all([&](const Part& part) { return part.from == from.front(); });
  if (is_sum && all([&](const Part& part) { return part.to == from.front(); })) {
    found.kind = Collective::Kind::kAllReduce;
    found.counts = {static_cast<int>(element_count(from.front().shape()))};
    return found;
  }
  const bool is_gather =
      all([&](const Part& part) { return gathers_all(part, group) && part.to == to.front(); });
  if (!is_sum && !is_gather) return std::nullopt;
  found.kind = is_sum ? Collective::Kind::kReduceScatter : Collective::Kind::kAllGather;
  const auto counts = is_sum ? counts_in(from.front(), to) : counts_in(to.front(), from);
  if (!counts) return std::nullopt;
  found.counts = *counts;
  for (int begin = 0; const int count : *counts) found.begins.push_back(begin), begin += count;
  return found;
}

}  // namespace tessera
