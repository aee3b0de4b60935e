#include "planner/search/internal/sources/stage_divisions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/text/text.h"
#include "base/threads/on_all_cores.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/preset.h"
#include "planner/pipeline/stage_search.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "planner/presets/stages.h"

namespace tessera {
namespace {

constexpr std::string_view kAxes[] = {kDataAxis, kSpaceAxis, kTensorAxis};

/// Sizes of dp, sp and tp.
using Degrees = std::vector<int64_t>;

MeshPtr mesh_of(const Degrees& degrees) {
  Shape shape;
  std::vector<std::string> names;
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (degrees[i] == 1) continue;
    shape.push_back(degrees[i]);
    names.emplace_back(kAxes[i]);
  }
  if (shape.empty())
    return std::make_shared<const Mesh>(Shape{1}, std::vector{std::string(kDataAxis)});
  return std::make_shared<const Mesh>(shape, names);
}

/// The model divided by axes of two parts each; nullopt when an axis would divide nothing.
std::optional<PlacedGraph> divided(const PlanRequest& request, const Degrees& degrees,
                                   int64_t micro_batches, const MemoryStrategy& memory_strategy) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < degrees.size(); ++i)
    parts.push_back(std::string(kAxes[i]) + "=" + std::to_string(degrees[i]));
  CompileOptions options;
  options.rewrites = request.rewrites;
  options.verify = false;
  try {
    if (memory_strategy.zero > 0 && degrees.front() > 1)
      parts.push_back(std::string(kZeroKey) + "=" + std::to_string(memory_strategy.zero));
    Plan plan = preset_plan(parse_preset(join(parts, ",")), request.graph);
    plan.meshes = one_mesh(mesh_of(degrees));
    plan.micro_batches = micro_batches;
    plan.recompute = memory_strategy.recompute;
    plan.cost = cost_of(identity_mapping(request.cluster, 1), {});
    return placements(request.graph, plan, options);
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return std::nullopt;
  }
}

/// The forward ops, by position, with which a stage begins after a boundary of the constraints.
std::vector<int> boundaries_of(const PlanRequest& request, const PlanConstraints& constraints) {
  const std::vector<int> stages = stages_after(request.graph, constraints.boundaries);
  std::vector<int> begins;
  for (int i = 1; i < std::ssize(stages); ++i)
    if (stages[i] != stages[i - 1]) begins.push_back(i);
  return begins;
}

/// The most stages that a search makes of many ranks.
int largest_stage_count(int ranks) {
  return ranks > kSearchPolicy.many_ranks ? StageSearchOptions().max_stages : ranks;
}

bool obeys(const Degrees& degrees, const PlanConstraints& constraints) {
  for (size_t i = 0; i < degrees.size(); ++i) {
    const auto fixed = constraints.degrees.find(kAxes[i]);
    if (fixed != constraints.degrees.end() && fixed->second != degrees[i]) return false;
  }
  return true;
}

/// The degrees of the model from which a stage sharding is priced: axes of two parts each.
Degrees halves_of(const Degrees& degrees) {
  Degrees halves;
  for (const int64_t degree : degrees) halves.push_back(std::min<int64_t>(degree, 2));
  return halves;
}

int machine_size(const Cluster& cluster) {
  return static_cast<int>(cluster.devices_of(cluster.machine(0)).size());
}

/// Calls visit({dp, sp, tp}) for all degrees that multiply to `size`.
template <class Visit>
void for_each_degrees(int64_t size, const Visit& visit) {
  for (int64_t tensor = 1; tensor <= size; ++tensor)
    for (int64_t space = 1; size % tensor == 0 && space <= size / tensor; ++space)
      if (size / tensor % space == 0) visit(Degrees{size / tensor / space, space, tensor});
}

}  // namespace

std::shared_ptr<const LayerSequence> stage_line(const PlanRequest& request,
                                                const PlanConstraints& constraints) {
  return std::make_shared<const LayerSequence>(layer_sequence(
      request.graph, largest_stage_count(constraints.ranks), boundaries_of(request, constraints)));
}

StageDivisions::StageDivisions(const PlanRequest& request, const PlanConstraints& constraints,
                               std::shared_ptr<const LayerSequence> sequence,
                               const DeviceRuns& runs, int64_t micro_batches,
                               const MemoryStrategy& memory_strategy, GraphInterner& graphs)
    : strategy_(memory_strategy), sequence_(std::move(sequence)) {
  for (const int begin : boundaries_of(request, constraints))
    boundaries_.push_back(static_cast<int>(std::ranges::lower_bound(sequence_->begins, begin) -
                                           sequence_->begins.begin()));
  std::vector<Degrees> wanted;
  const auto add = [&](const Degrees& degrees) {
    if (obeys(degrees, constraints)) wanted.push_back(degrees);
  };
  if (constraints.ranks <= kSearchPolicy.many_ranks) {
    for (int size = 1; size < constraints.ranks; ++size) for_each_degrees(size, add);
  } else {
    std::set<int> sizes;
    for (int kind = 0; kind < runs.kinds(); ++kind) sizes.insert(runs.size_of(kind));
    const int64_t rows = batch_rows(request.graph) / micro_batches;
    const int64_t parts = kSearchPolicy.operator_machines * machine_size(request.cluster);
    for (const int size : sizes)
      for_each_degrees(size, [&](const Degrees& degrees) {
        const bool has_space = constraints.degrees.contains(std::string(kSpaceAxis));
        if (degrees[0] <= rows && degrees[2] <= parts && (has_space || degrees[1] == 1))
          add(degrees);
      });
  }
  add_models(request, wanted, micro_batches, graphs);
  for (const Degrees& degrees : wanted)
    if (const auto found = models_.find(halves_of(degrees)); found != models_.end())
      stage_shardings_.push_back({found->second.get(), mesh_of(degrees)});
}

void StageDivisions::add_models(const PlanRequest& request, const std::vector<Degrees>& wanted,
                                int64_t micro_batches, GraphInterner& graphs) {
  std::set<Degrees> halves;
  for (const Degrees& degrees : wanted) halves.insert(halves_of(degrees));
  const std::vector<Degrees> all(halves.begin(), halves.end());
  graphs_.resize(all.size());
  std::vector<std::unique_ptr<const DividedModel>> made(all.size());
  on_all_cores(std::ssize(all), [&](int64_t i) {
    std::optional<PlacedGraph> placed = divided(request, all[i], micro_batches, strategy_);
    if (!placed) return;
    graphs_[i] = graphs.keep(std::move(placed->graph));
    made[i] = std::make_unique<const DividedModel>(*graphs_[i], std::move(placed->sharded),
                                                   request.graph, *sequence_);
  });
  for (size_t i = 0; i < all.size(); ++i)
    if (made[i]) models_.try_emplace(all[i], std::move(made[i]));
}

}  // namespace tessera
