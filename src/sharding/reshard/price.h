// The price of an exchange on given links, and the options from which a reshard plan is chosen.
#pragma once

#include <string_view>

#include "base/tensor/tensor.h"
#include "cluster/cost/links.h"
#include "sharding/reshard/exchange.h"

namespace tessera {

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
  LinkCosts links = {};
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::kAuto;
};

/// The price of one exchange on the given links: that of the busiest rank of both meshes
/// (ExchangeTime). Of more than 64 receivers a sample is examined.
Price price(const TensorType& type, const Exchange& exchange, const LinkCosts& links = {});

}  // namespace tessera
