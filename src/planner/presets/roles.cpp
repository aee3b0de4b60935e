#include "planner/presets/roles.h"

#include <algorithm>
#include <utility>

#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

bool is_in(DimClassIndex index, const std::vector<DimClassIndex>& list) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

/// Has a value dims of this class and of another one of `chosen`?
bool conflicts(const DimClasses& dims, DimClassIndex candidate,
               const std::vector<DimClassIndex>& chosen) {
  for (const ValueDim& member : dims.classes[candidate].members)
    for (DimClassIndex other : dims.of_value[member.value.index])
      if (other != candidate && is_in(other, chosen)) return true;
  return false;
}

/// The candidates in order, without those that conflict with earlier ones.
std::vector<DimClassIndex> without_conflicts(const DimClasses& dims,
                                             const std::vector<DimClassIndex>& candidates) {
  std::vector<DimClassIndex> chosen;
  for (DimClassIndex candidate : candidates)
    if (!conflicts(dims, candidate, chosen)) chosen.push_back(candidate);
  return chosen;
}

}  // namespace

std::vector<DimClassIndex> batch_classes(const Graph& graph, const DimClasses& dims) {
  std::vector<DimClassIndex> rows;
  for (ValueId input : graph.inputs()) {
    if (graph.type(input).shape.size() == 0) continue;
    const DimClassIndex index = dims.at({input, 0});
    if (!index.is_none() && !is_in(index, rows)) rows.push_back(index);
  }
  return rows;
}

std::vector<DimClassIndex> tensor_classes(const Graph& graph, const DimClasses& dims) {
  std::vector<DimClassIndex> candidates;
  for (DimClassIndex i : dims.classes.indices()) {
    const DimClass& dim = dims.classes[i];
    const bool pays = dim.product_flops > Flops(0) &&
                      dim.product_flops.value() >= kSearchPolicy.flops_per_element * dim.exchanged;
    const bool may_divide = dim.extent > 1 && dim.has_weights && !has_input(graph, dim);
    if (may_divide && (pays || dim.looks_up)) candidates.push_back(i);
  }
  const auto order = [&](DimClassIndex index) {
    return std::pair(dims.classes[index].is_needed_whole, dims.classes[index].exchanged);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](DimClassIndex a, DimClassIndex b) { return order(a) < order(b); });
  return without_conflicts(dims, candidates);
}

std::vector<DimClassIndex> space_classes(const Graph& graph, const DimClasses& dims) {
  const std::vector<DimClassIndex> rows = batch_classes(graph, dims);
  std::vector<DimClassIndex> candidates;
  for (DimClassIndex i : dims.classes.indices()) {
    const DimClass& dim = dims.classes[i];
    const bool is_space = 2 * dim.weight_flops.value() < dim.product_flops.value();
    if (dim.extent > 1 && is_space && !is_in(i, rows)) candidates.push_back(i);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](DimClassIndex a, DimClassIndex b) {
    return dims.classes[a].product_flops > dims.classes[b].product_flops;
  });
  return without_conflicts(dims, candidates);
}

double share_of_products(const DimClasses& dims, const std::vector<DimClassIndex>& chosen) {
  double flops = 0;
  for (DimClassIndex index : chosen) flops += dims.classes[index].product_flops.value();
  return dims.product_flops > Flops(0) ? flops / dims.product_flops.value() : 0;
}

}  // namespace tessera
