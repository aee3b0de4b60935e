// The time of an exchange on given links, and the options from which a reshard plan is chosen.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/tensor.h"
#include "base/units.h"
#include "reshard/exchange.h"

namespace tessera {

/// The cost of a link: a latency for each rank with which the busiest rank communicates, and the
/// rate of the bytes that it receives or sends.
struct LinkCost {
  /// The default is that of threads on one machine.
  Seconds latency{1e-6};
  double bytes_per_second = 5e9;
};

/// How partial values over several axes are reduced.
///   source  hierarchical: Thakur, Rabenseifner and Gropp 2005
enum class AllReduceAlgorithm {
  /// The cheapest of the others.
  kAuto,
  /// One round: each rank receives all partial values of what it wants.
  kOneShot,
  /// Each rank receives all partial values of its share; then the shares are gathered.
  kReduceScatterAllGather,
  /// A reduce-scatter over each axis, the innermost first, and all-gathers back. Over the axes node
  /// and device it is the two-level all-reduce; over axes of two ranks it is recursive halving and
  /// doubling.
  kHierarchical,
};
/// "auto", "one-shot", "reduce-scatter-all-gather", "hierarchical".
std::string_view to_text(AllReduceAlgorithm algorithm);

struct ReshardOptions {
  /// Between any two ranks.
  LinkCost link = {};
  /// By the name of a mesh axis: between ranks of one mesh that differ on it. Between ranks that
  /// differ on several axes the most expensive of them counts.
  std::map<std::string, LinkCost> axes = {};
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::kAuto;

  /// The link between ranks that differ on `axis`.
  const LinkCost& on(const Mesh& mesh, int axis) const;
};

/// The time of one exchange: that of the busiest rank of both meshes. Of more than 64 receivers a
/// sample is examined.
Seconds price(const TensorType& type, const Exchange& exchange, const ReshardOptions& options = {});

}  // namespace tessera
