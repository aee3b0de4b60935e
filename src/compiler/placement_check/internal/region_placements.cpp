#include "compiler/placement_check/internal/region_placements.h"

#include "compiler/placement_check/internal/refuse.h"
#include "ir/ops/control/control.h"

namespace tessera {

void check_control(const Op& op, const KernelStep& step) {
  const bool is_loop = op.kind == kWhileKind;
  if (!step.control || (step.control->kind == Control::Kind::kWhile) != is_loop ||
      step.control->regions.size() != op.regions.size())
    refuse("op '" + op.name + "' does not run its regions");
  const int64_t max_iterations =
      op.attributes.has("max_iterations") ? op.attributes.integer("max_iterations") : -1;
  if (is_loop && step.control->max_iterations != max_iterations)
    refuse("op '" + op.name + "' makes another number of iterations");
}

std::vector<RegionPlacements> derive_regions(const Op& op,
                                             const std::vector<const DistAttr*>& inputs,
                                             const std::vector<DistAttr>& outputs,
                                             const std::vector<DistAttr>& results) {
  const bool is_loop = op.kind == kWhileKind;
  RegionPlacements region;
  if (is_loop) region.inputs = results;
  for (size_t i = is_loop ? outputs.size() : 1; i < inputs.size(); ++i)
    region.inputs.push_back(*inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (is_loop && !(*inputs[i] == outputs[i]))
      refuse("op '" + op.name + "' takes " + to_text(*inputs[i]) + " and carries it as " +
             to_text(outputs[i]));
  std::vector<RegionPlacements> regions;
  for (size_t r = 0; r < op.regions.size(); ++r) {
    const bool is_condition = is_loop && r == 0;
    region.carries = is_loop && r == 1;
    region.outputs =
        is_condition ? std::vector{DistAttr::replicated(outputs.front().mesh, 0)} : results;
    regions.push_back(region);
  }
  return regions;
}

}  // namespace tessera
