#include "lower/region.h"

#include <algorithm>

#include "base/error.h"
#include "lower/lower.h"
#include "lower/partition.h"
#include "lower/passes/in_place.h"
#include "ops/control/control.h"

namespace tessera {
namespace {

TaskGraph lower_region(const Graph& region, const RegionSite& site, const RegionEnds& ends,
                       bool carries) {
  const MeshPtr& timed = ends.outputs.front().mesh;
  const ShardedGraph sharded = propagate_region(region, timed, ends);
  Program program =
      partition_region(region, sharded, one_mesh(site.mesh),
                       {site.micro_batches, site.micro_batch, carries, ends, site.reshard});
  update_variables_in_place(program);
  const ArenaPlans arenas = plan_arenas(program);
  return make_tasks(std::move(program), arenas);
}

int64_t aligned(Bytes bytes) {
  return (bytes.value() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

Control lower_while(const RegionSite& site) {
  const WhileView loop = while_view(site.op.regions, site.op.attributes);
  Control control{Control::Kind::kWhile, {}, {}, loop.max_iterations.value_or(-1)};
  const DistAttr everywhere = DistAttr::replicated(site.outputs.front().mesh, 0);
  // What is carried lies as the results do: of a sum there are addends from the beginning.
  std::vector<DistAttr> inputs = site.inputs;
  std::copy(site.outputs.begin(), site.outputs.end(), inputs.begin());
  control.regions.push_back(lower_region(loop.condition, site, {inputs, {everywhere}}, false));
  control.regions.push_back(lower_region(loop.body, site, {inputs, site.outputs}, true));
  // Who makes a iteration may be ahead of who still reads the predicate's addends: they share no
  // bytes.
  control.offsets = {0, aligned(control.regions[0].arenas.front())};
  return control;
}

Control lower_if(const RegionSite& site) {
  Control control{Control::Kind::kIf, {}, {0, 0}, -1};
  const RegionEnds ends{{site.inputs.begin() + 1, site.inputs.end()}, site.outputs};
  for (const GraphPtr& region : site.op.regions)
    control.regions.push_back(lower_region(*region, site, ends, false));
  return control;
}

}  // namespace

std::shared_ptr<const Control> lower_control(const RegionSite& site) {
  return std::make_shared<const Control>(site.op.kind == kWhileKind ? lower_while(site)
                                                                    : lower_if(site));
}

}  // namespace tessera
