#include "sharding/reshard/reshard.h"

#include <algorithm>

#include "sharding/reshard/decomposition.h"
#include "sharding/reshard/internal/chains.h"

namespace tessera {
namespace {

void add_if_any(std::vector<ExchangeSequence>& list, std::optional<ExchangeSequence> sequence) {
  if (sequence) list.push_back(std::move(*sequence));
}

/// Adds the candidates of options.all_reduce for an exchange that resolves partial axes. Removes
/// the single exchange in front where another algorithm is asked for and applies.
void add_all_reduces(const TensorType& type, const DistAttr& from, const DistAttr& to,
                     AllReduceAlgorithm algorithm, std::vector<ExchangeSequence>& list) {
  if (algorithm == AllReduceAlgorithm::kOneShot) return;
  if (algorithm != AllReduceAlgorithm::kHierarchical)
    add_if_any(list, via_reduce_scatter(type, from, to));
  if (algorithm != AllReduceAlgorithm::kReduceScatterAllGather) {
    for (ExchangeSequence& sequence : via_axis_reduce_scatters(type, from, to))
      list.push_back(std::move(sequence));
    for (ExchangeSequence& sequence : via_ordered_reduce_scatters(type, from, to))
      list.push_back(std::move(sequence));
  }
  if (algorithm == AllReduceAlgorithm::kHierarchical && list.size() == 1)
    add_if_any(list, via_reduce_scatter(type, from, to));
  if (algorithm != AllReduceAlgorithm::kAuto && list.size() > 1) list.erase(list.begin());
}

/// The cheapest reductions, and then the cheapest way from there.
void add_reductions_first(const TensorType& type, const DistAttr& from, const DistAttr& to,
                          const ReshardOptions& options, std::vector<ExchangeSequence>& list) {
  std::vector<DistAttr> middles = reduced_in_parts(type.shape, from, to);
  if (std::optional<DistAttr> middle = reduced_first(from, to)) middles.push_back(*middle);
  for (const DistAttr& middle : middles) {
    list.push_back(plan_reshard(type, from, middle, options));
    for (Exchange& exchange : plan_reshard(type, middle, to, options))
      list.back().push_back(std::move(exchange));
  }
}

/// Are there several collectives in it? One over several axes may be faster axis by axis where
/// their links differ.
bool may_be_chain(const Exchange& exchange) {
  switch (exchange.kind) {
    case ReshardKind::kMessages: return true;
    case ReshardKind::kAllGather:
    case ReshardKind::kAllToAll: return changed_axes(exchange).size() > 1;
    default: return false;
  }
}

/// The reshard plans among which the cheapest is chosen, at least one. Of equal costs the first one
/// is chosen.
std::vector<ExchangeSequence> candidates(const TensorType& type, const DistAttr& from,
                                         const DistAttr& to, const ReshardOptions& options) {
  std::vector<ExchangeSequence> list = {{classified(type.shape, from, to)}};
  if (!on_one_mesh(from, to)) {
    add_if_any(list, via_one_copy(type, from, to));
  } else if (!resolved_axes(from, to).empty()) {
    add_all_reduces(type, from, to, options.all_reduce, list);
    add_if_any(list, via_inner_scatters(type, from, to));
    add_reductions_first(type, from, to, options, list);
  } else if (started_axes(from, to).empty() && may_be_chain(list.front().front())) {
    add_if_any(list, find_chain(type, from, to, options));
    add_if_any(list, via_outer_gathers(type, from, to));
  }
  return list;
}

double seconds_of(const TensorType& type, const ExchangeSequence& exchanges,
                  const LinkCosts& links) {
  double sum = 0;
  for (const Exchange& exchange : exchanges) sum += price(type, exchange, links).estimate.value();
  return sum;
}

/// Whether an axis is partial in both, with different reductions.
bool changes_a_reduction(const DistAttr& from, const DistAttr& to) {
  if (!on_one_mesh(from, to)) return false;
  return std::any_of(from.partial.begin(), from.partial.end(), [&](const PartialAxis& p) {
    return to.is_partial_on(p.axis) &&
           std::find(to.partial.begin(), to.partial.end(), p) == to.partial.end();
  });
}

}  // namespace

std::vector<Exchange> plan_reshard(const TensorType& type, const DistAttr& from, const DistAttr& to,
                                   const ReshardOptions& options) {
  if (from == to) return {};
  if ((!on_one_mesh(from, to) && !from.partial.empty()) || changes_a_reduction(from, to)) {
    // Reduce on the source mesh first: otherwise every partial value is sent to the other mesh, and
    // partial values of a maximum are not partial values of a sum.
    DistAttr reduced = from;
    reduced.partial.clear();
    std::vector<Exchange> exchanges = plan_reshard(type, from, reduced, options);
    for (Exchange& exchange : plan_reshard(type, reduced, to, options))
      exchanges.push_back(std::move(exchange));
    return exchanges;
  }
  std::vector<ExchangeSequence> list = candidates(type, from, to, options);
  if (list.size() == 1) return list.front();
  size_t best = 0;
  double best_seconds = seconds_of(type, list[0], options.links);
  for (size_t i = 1; i < list.size(); ++i) {
    const double seconds = seconds_of(type, list[i], options.links);
    if (seconds >= best_seconds) continue;
    best = i;
    best_seconds = seconds;
  }
  return list[best];
}

}  // namespace tessera
