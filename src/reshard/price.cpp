#include "reshard/price.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "reshard/pulls.h"

namespace tessera {
namespace {

/// The number of receivers that price() examines at most.
constexpr int kPricedReceivers = 64;

/// The link between two ranks of one mesh, or of two meshes.
const LinkCost& link_between(const Exchange& exchange, Rank sender, Rank receiver,
                             const LinkCosts& links) {
  if (!links.pairs.empty())
    if (const LinkCost* own = links.between(sender, receiver)) return *own;
  const LinkCost* slowest = &links.any;
  if (links.axes.empty() || !on_one_mesh(exchange.from, exchange.to)) return *slowest;
  const Mesh& mesh = *exchange.to.mesh;
  const Coordinate a = *mesh.coordinate_of(sender), b = *mesh.coordinate_of(receiver);
  bool found = false;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (a[axis] == b[axis]) continue;
    const LinkCost& link = links.on(mesh.axes()[axis]);
    if (!found || link.bytes_per_second < slowest->bytes_per_second) slowest = &link;
    found = true;
  }
  return *slowest;
}

/// What a receiver gets from each other rank, in ascending order of the ranks: of chunks a rank may
/// send many boxes.
std::vector<std::pair<Rank, Bytes>> bytes_by_sender(const TensorType& type,
                                                    const Exchange& exchange, Rank receiver) {
  std::vector<std::pair<Rank, Bytes>> messages;
  for (const PulledElements& pull : pulled_elements(type.shape, exchange, receiver))
    if (pull.sender != receiver)
      messages.emplace_back(pull.sender, Bytes(pull.count * size_of(type.dtype)));
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
  ExchangeTime time;
  for (size_t i = 0; i < receivers.size(); i += stride) {
    for (const auto& [sender, bytes] : bytes_by_sender(type, exchange, receivers[i]))
      time.add(sender, bytes, link_between(exchange, sender, receivers[i], links));
    time.end_receiver();
  }
  return time.price();
}

}  // namespace tessera
