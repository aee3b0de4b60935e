#include "compiler/lower/internal/region.h"

#include <algorithm>

#include "base/error.h"
#include "compiler/lower/internal/make_tasks.h"
#include "compiler/lower/internal/passes/arena.h"
#include "compiler/lower/internal/passes/in_place.h"
#include "ir/ops/control/control.h"

namespace tessera {
namespace {

TaskGraph lower_region(const Graph& region, const RegionSite& site, const RegionEnds& ends,
                       bool carries) {
  const MeshPtr& mesh = ends.outputs.front().mesh;
  const ShardedGraph sharded = propagate_region(region, mesh, ends);
  Program program =
      partition_region(region, sharded, one_mesh(site.mesh), {site.micro_batch, carries, ends},
                       {site.micro_batches, site.reshard, lower_control});
  update_variables_in_place(program);
  const ArenaPlans arenas = plan_arenas(program);
  return make_tasks(std::move(program), arenas);
}

Control lower_while(const RegionSite& site) {
  const WhileView loop = while_view(site.op.regions, site.op.attributes);
  Control control{Control::Kind::kWhile, {}, {}, loop.max_iterations.value_or(-1)};
  const DistAttr everywhere = DistAttr::replicated(site.outputs.front().mesh, 0);
  // Carried values have the placements of the results: a sum is partial from the beginning.
  std::vector<DistAttr> inputs = site.inputs;
  std::copy(site.outputs.begin(), site.outputs.end(), inputs.begin());
  control.regions.push_back(lower_region(loop.condition, site, {inputs, {everywhere}}, false));
  control.regions.push_back(lower_region(loop.body, site, {inputs, site.outputs}, true));
  // One rank may run an iteration while another still reads the partial values of the predicate:
  // the two arenas share no bytes.
  control.offsets = {0, align_up(control.regions[0].arenas.front().value())};
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
