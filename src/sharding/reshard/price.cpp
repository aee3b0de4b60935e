#include "sharding/reshard/price.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {
namespace {

/// The number of receivers that price() examines at most.
constexpr int kPricedReceivers = 64;

/// The links between the ranks of one mesh, or of two meshes.
class ExchangeLinks {
 public:
  ExchangeLinks(const Exchange& exchange, const LinkCosts& links) : links_(links) {
    if (links.axes.empty() || !on_one_mesh(exchange.from, exchange.to)) return;
    const Mesh& mesh = *exchange.to.mesh;
    for (int axis = 0; axis < mesh.axis_count(); ++axis) add_axis(mesh, axis);
    coordinates_.resize(static_cast<size_t>(std::ranges::max(mesh.ranks())) + 1);
    for (int i = 0; i < std::ssize(mesh.ranks()); ++i)
      coordinates_[mesh.ranks()[i]] = mesh.coordinate_at(i);
  }

  const LinkCost& between(Rank sender, Rank receiver) const {
    if (!links_.pairs.empty())
      if (const LinkCost* own = links_.between(sender, receiver)) return *own;
    if (parts_.empty()) return links_.any;
    const Coordinate &a = coordinates_[sender], &b = coordinates_[receiver];
    const LinkCost* slowest = nullptr;
    for (const Part& part : parts_)
      if (part.of(a) != part.of(b) &&
          (!slowest || part.link->bytes_per_second < slowest->bytes_per_second))
        slowest = part.link;
    return slowest ? *slowest : links_.any;
  }

 private:
  /// An axis, or a level of it: the ranks of `inside` neighbours are equal on it.
  struct Part {
    const LinkCost* link = nullptr;
    int axis = 0;
    int64_t inside = 1, size = 1;

    int64_t of(const Coordinate& coordinate) const { return coordinate[axis] / inside % size; }
  };

  void add_axis(const Mesh& mesh, int axis) {
    const int64_t size = mesh.shape()[axis];
    const auto levels = links_.levels.find(mesh.axes()[axis]);
    int64_t inside = 1;
    std::vector<Part> parts;
    if (levels != links_.levels.end())
      for (auto level = levels->second.rbegin(); level != levels->second.rend(); ++level) {
        parts.push_back({&links_.on(level->name), axis, inside, level->size});
        inside *= level->size;
      }
    if (inside != size) parts = {{&links_.on(mesh.axes()[axis]), axis, 1, size}};
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  }

  const LinkCosts& links_;
  std::vector<Part> parts_;              // none: all ranks have the same link
  std::vector<Coordinate> coordinates_;  // by rank
};

/// What a receiver gets from each other rank, in ascending order of the ranks: of chunks a rank may
/// send many boxes.
std::vector<std::pair<Rank, Bytes>> bytes_by_sender(const TensorType& type,
                                                    const Exchange& exchange, Rank receiver) {
  std::vector<std::pair<Rank, Bytes>> messages;
  for (const RecvElements& recv_region : recv_elements(type.shape, exchange, receiver))
    if (recv_region.sender != receiver)
      messages.emplace_back(recv_region.sender, Bytes(recv_region.count * size_of(type.dtype)));
  std::ranges::sort(messages, {}, &std::pair<Rank, Bytes>::first);
  size_t last = 0;
  for (size_t i = 1; i < messages.size(); ++i)
    if (messages[i].first == messages[last].first)
      messages[last].second += messages[i].second;
    else
      messages[++last] = messages[i];
  if (!messages.empty()) messages.resize(last + 1);
  return messages;
}

}  // namespace

std::string_view to_text(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::kAuto: return "auto";
    case AllReduceAlgorithm::kOneShot: return "one-shot";
    case AllReduceAlgorithm::kReduceScatterAllGather: return "reduce-scatter-all-gather";
    case AllReduceAlgorithm::kHierarchical: return "hierarchical";
  }
  throw InternalError("unknown all-reduce algorithm");
}

Price price(const TensorType& type, const Exchange& exchange, const LinkCosts& links) {
  if (exchange.kind == ReshardKind::kNone || exchange.kind == ReshardKind::kSlice) return {};
  const std::vector<Rank>& receivers = exchange.to.mesh->ranks();
  const size_t stride = (receivers.size() + kPricedReceivers - 1) / kPricedReceivers;
  const ExchangeLinks found(exchange, links);
  ExchangeTime time;
  for (size_t i = 0; i < receivers.size(); i += stride) {
    for (const auto& [sender, bytes] : bytes_by_sender(type, exchange, receivers[i]))
      time.add(sender, bytes, found.between(sender, receivers[i]));
    time.end_receiver();
  }
  return time.price();
}

}  // namespace tessera
