#include "reshard/reshard.h"

#include <algorithm>

#include "reshard/chains.h"
#include "reshard/decomposition.h"

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
  if (algorithm != AllReduceAlgorithm::kReduceScatterAllGather)
    add_if_any(list, via_axis_reduce_scatters(type, from, to));
  if (algorithm == AllReduceAlgorithm::kHierarchical && list.size() == 1)
    add_if_any(list, via_reduce_scatter(type, from, to));
  if (algorithm != AllReduceAlgorithm::kAuto && list.size() > 1) list.erase(list.begin());
}

/// The reshard plans among which the cheapest is chosen, at least one. Of equal costs the first one
/// is chosen.
std::vector<ExchangeSequence> candidates(const TensorType& type, const DistAttr& from,
                                         const DistAttr& to, const ReshardOptions& options) {
  std::vector<ExchangeSequence> list = {{classified(type.shape, from, to)}};
  if (!on_one_mesh(from, to))
    add_if_any(list, via_one_copy(type, from, to));
  else if (!resolved_axes(from, to).empty())
    add_all_reduces(type, from, to, options.all_reduce, list);
  else if (started_axes(from, to).empty() && list.front().front().kind == ReshardKind::kMessages)
    add_if_any(list, find_chain(type, from, to, options));
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
