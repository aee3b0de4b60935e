#include "search/stage_divisions.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "base/error.h"
#include "base/on_all_cores.h"
#include "base/text.h"
#include "plan/preset.h"
#include "presets/presets.h"
#include "presets/stages.h"
#include "stage_search/stage_search.h"

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
                                   int64_t micro_batches, const Recompute& recompute) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < degrees.size(); ++i)
    parts.push_back(std::string(kAxes[i]) + "=" + std::to_string(degrees[i]));
  CompileOptions options;
  options.rewrites = request.rewrites;
  try {
    Plan plan = preset_plan(parse_preset(join(parts, ",")), request.graph);
    plan.meshes = one_mesh(mesh_of(degrees));
    plan.micro_batches = micro_batches;
    plan.recompute = recompute;
    plan.cost = cost_of(in_order(request.cluster, 1), {});
    return placements(request.graph, plan, options);
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return std::nullopt;
  }
}

/// The forward ops, by position, with which a stage begins behind a boundary of the constraints.
std::vector<int> boundaries_of(const PlanRequest& request, const PlanConstraints& constraints) {
  const std::vector<int> stages = stages_behind(request.graph, constraints.boundaries);
  std::vector<int> begins;
  for (int i = 1; i < std::ssize(stages); ++i)
    if (stages[i] != stages[i - 1]) begins.push_back(i);
  return begins;
}

/// The most stages that a search makes of many ranks.
int largest_stage_count(int ranks) {
  return ranks > kManyRanks ? StageSearchOptions().max_stages : ranks;
}

bool has_space(const PlanConstraints& constraints) {
  return constraints.ranks <= kManyRanks || constraints.degrees.contains(std::string(kSpaceAxis));
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

StageDivisions::StageDivisions(const PlanRequest& request, const PlanConstraints& constraints,
                               const DeviceRuns& runs, int64_t micro_batches,
                               const Recompute& recompute)
    : recompute_(recompute),
      line_(model_line(request.graph, largest_stage_count(constraints.ranks),
                       boundaries_of(request, constraints))) {
  for (const int begin : boundaries_of(request, constraints))
    boundaries_.push_back(
        static_cast<int>(std::ranges::lower_bound(line_.begins, begin) - line_.begins.begin()));
  std::vector<Degrees> all;
  for (int set = 0; set < 8; ++set)
    if (has_space(constraints) || (set & 2) == 0)
      all.push_back({1 + (set & 1), 1 + (set >> 1 & 1), 1 + (set >> 2 & 1)});
  placed_.resize(all.size());
  on_all_cores(std::ssize(all),
               [&](int64_t i) { placed_[i] = divided(request, all[i], micro_batches, recompute); });
  for (size_t i = 0; i < all.size(); ++i)
    if (placed_[i])
      models_.try_emplace(all[i], placed_[i]->graph, placed_[i]->sharded, request.graph, line_);
  if (constraints.ranks <= kManyRanks) {
    for (int size = 1; size < constraints.ranks; ++size)
      for_each_degrees(size, [&](const Degrees& degrees) { add_way(degrees, constraints); });
    return;
  }
  std::set<int> sizes;
  for (int kind = 0; kind < runs.kinds(); ++kind) sizes.insert(runs.size_of(kind));
  const int64_t rows = batch_rows(request.graph) / micro_batches;
  const int64_t parts = kOperatorMachines * machine_size(request.cluster);
  for (const int size : sizes)
    for_each_degrees(size, [&](const Degrees& degrees) {
      if (degrees[0] <= rows && degrees[2] <= parts) add_way(degrees, constraints);
    });
}

void StageDivisions::add_way(const Degrees& degrees, const PlanConstraints& constraints) {
  Degrees two;
  for (size_t i = 0; i < degrees.size(); ++i) {
    const auto fixed = constraints.degrees.find(kAxes[i]);
    if (fixed != constraints.degrees.end() && fixed->second != degrees[i]) return;
    two.push_back(std::min<int64_t>(degrees[i], 2));
  }
  const auto found = models_.find(two);
  if (found != models_.end()) ways_.push_back({&found->second, mesh_of(degrees)});
}

}  // namespace tessera
