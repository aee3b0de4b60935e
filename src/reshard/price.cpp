#include "reshard/price.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "reshard/pulls.h"

namespace tessera {
namespace {

/// The number of receivers that price() examines at most.
constexpr int kPricedReceivers = 64;

/// The link between two ranks of one mesh, or of two meshes.
const LinkCost& link_between(const Exchange& exchange, Rank sender, Rank receiver,
                             const ReshardOptions& options) {
  const LinkCost* slowest = &options.link;
  if (options.axes.empty() || !on_one_mesh(exchange.from, exchange.to)) return *slowest;
  const Mesh& mesh = *exchange.to.mesh;
  const Coordinate a = *mesh.coordinate_of(sender), b = *mesh.coordinate_of(receiver);
  bool found = false;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (a[axis] == b[axis]) continue;
    const LinkCost& link = options.on(mesh, axis);
    if (!found || link.bytes_per_second < slowest->bytes_per_second) slowest = &link;
    found = true;
  }
  return *slowest;
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

const LinkCost& ReshardOptions::on(const Mesh& mesh, int axis) const {
  const auto found = axes.find(mesh.axes()[axis]);
  return found == axes.end() ? link : found->second;
}

Seconds price(const TensorType& type, const Exchange& exchange, const ReshardOptions& options) {
  if (exchange.kind == ReshardKind::kNone || exchange.kind == ReshardKind::kSlice)
    return Seconds(0);
  const std::vector<Rank>& receivers = exchange.to.mesh->ranks();
  const size_t stride = (receivers.size() + kPricedReceivers - 1) / kPricedReceivers;
  double max_latency = 0, max_transfer = 0;
  std::map<Rank, double> sending;
  for (size_t i = 0; i < receivers.size(); i += stride) {
    double receiving = 0, latency = 0;
    std::set<Rank> peers;
    for (const Pull& pull : pulls(type.shape, exchange, receivers[i])) {
      if (pull.sender == receivers[i]) continue;
      const LinkCost& link = link_between(exchange, pull.sender, receivers[i], options);
      const double seconds =
          static_cast<double>(element_count(pull.box.shape()) * size_of(type.dtype)) /
          link.bytes_per_second;
      receiving += seconds;
      sending[pull.sender] += seconds;
      if (peers.insert(pull.sender).second) latency += link.latency.value();
    }
    max_transfer = std::max(max_transfer, receiving);
    max_latency = std::max(max_latency, latency);
  }
  for (const auto& [sender, seconds] : sending) max_transfer = std::max(max_transfer, seconds);
  return Seconds(max_latency + max_transfer);
}

}  // namespace tessera
