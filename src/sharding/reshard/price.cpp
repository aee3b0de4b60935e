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
    for (const std::string& axis : mesh.axes()) by_axis_.push_back(&links.on(axis));
    coordinates_.resize(static_cast<size_t>(std::ranges::max(mesh.ranks())) + 1);
    for (int i = 0; i < std::ssize(mesh.ranks()); ++i)
      coordinates_[mesh.ranks()[i]] = mesh.coordinate_at(i);
  }

  const LinkCost& between(Rank sender, Rank receiver) const {
    if (!links_.pairs.empty())
      if (const LinkCost* own = links_.between(sender, receiver)) return *own;
    if (by_axis_.empty()) return links_.any;
    const Coordinate &a = coordinates_[sender], &b = coordinates_[receiver];
    const LinkCost* slowest = nullptr;
    for (size_t axis = 0; axis < by_axis_.size(); ++axis)
      if (a[axis] != b[axis] &&
          (!slowest || by_axis_[axis]->bytes_per_second < slowest->bytes_per_second))
        slowest = by_axis_[axis];
    return slowest ? *slowest : links_.any;
  }

 private:
  const LinkCosts& links_;
  std::vector<const LinkCost*> by_axis_;  // none: all ranks have the same link
  std::vector<Coordinate> coordinates_;   // by rank
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
