#include "planner/search/sources/incumbents.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <tuple>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "compiler/plan/preset.h"
#include "ir/precision/precision.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/dim_classes.h"
#include "planner/presets/presets.h"
#include "planner/presets/roles.h"

namespace tessera {
namespace {

/// The degrees of a preset, in the order of its ranks: pp, dp, fsdp, sp, tp.
struct GridPoint {
  int64_t stages = 1, data = 1, space = 1, tensor = 1;
  int64_t sharded = 1;  // where it is fixed

  int64_t ranks() const { return stages * data * sharded * space * tensor; }
  bool is_only(int64_t GridPoint::* degree) const { return this->*degree == ranks(); }
};

constexpr std::array<std::pair<std::string_view, int64_t GridPoint::*>, 5> kDegreesOfPoint{
    {{kPipelineKey, &GridPoint::stages},
     {kDataAxis, &GridPoint::data},
     {kShardedDataAxis, &GridPoint::sharded},
     {kSpaceAxis, &GridPoint::space},
     {kTensorAxis, &GridPoint::tensor}}};

std::string text_of(const GridPoint& point, const std::string& decisions) {
  std::vector<std::string> parts;
  for (const auto& [name, degree] : kDegreesOfPoint)
    if (point.*degree > 1) parts.push_back(std::string(name) + "=" + std::to_string(point.*degree));
  if (parts.empty()) parts.push_back(std::string(kDataAxis) + "=1");
  if (!decisions.empty()) parts.push_back(decisions);
  return join(parts, ",");
}

int64_t size_of_axis(const Mesh& mesh, std::string_view axis) {
  const std::optional<int> found = mesh.find_axis(axis);
  return found ? mesh.shape()[*found] : 1;
}

bool obeys(const GridPoint& point, const PlanConstraints& constraints) {
  return std::ranges::all_of(kDegreesOfPoint, [&](const auto& entry) {
    const auto fixed = constraints.degrees.find(entry.first);
    if (constraints.mesh && point.*entry.second != size_of_axis(*constraints.mesh, entry.first))
      return false;
    return fixed == constraints.degrees.end() || fixed->second == point.*entry.second;
  });
}

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> list;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) list.push_back(i);
  return list;
}

void add_points(int64_t all, const PlanConstraints& constraints, std::vector<GridPoint>& points) {
  const auto fixed = constraints.degrees.find(kShardedDataAxis);
  const int64_t sharded = fixed == constraints.degrees.end() ? 1 : fixed->second;
  if (all % sharded != 0) return;
  const int64_t ranks = all / sharded;
  for (int64_t stages : divisors(ranks))
    for (int64_t tensor : divisors(ranks / stages))
      for (int64_t space : divisors(ranks / stages / tensor)) {
        const GridPoint point{stages, ranks / stages / tensor / space, space, tensor, sharded};
        if (obeys(point, constraints)) points.push_back(point);
      }
}

std::vector<GridPoint> points_of(const PlanConstraints& constraints) {
  std::vector<GridPoint> points;
  for (const int ranks : std::views::reverse(rank_counts(constraints)))
    add_points(ranks, constraints, points);
  return points;
}

/// Prices of degrees without compiling: products at the rate of the device, the sum of the
/// gradients over dp and sp, and what the classes of tp sum and gather. The order counts.
class QuickEstimate {
 public:
  explicit QuickEstimate(const PlanRequest& request)
      : cluster_(request.cluster),
        products_(type_of_products(request.graph)),
        parameters_(static_cast<double>(parameter_bytes(request.graph).value())) {
    const DimClasses dims = dim_classes_of(request.graph);
    flops_ = 3 * dims.product_flops.value();  // the backward has twice as much
    tensor_flops_ = 0;
    for (DimClassIndex index : tensor_classes(request.graph, dims)) {
      tensor_flops_ += 3 * dims.classes[index].product_flops.value();
      exchanged_ += dims.classes[index].exchanged * static_cast<double>(size_of(products_));
    }
    tensor_flops_ = std::min(tensor_flops_, flops_);
  }

  double seconds(const GridPoint& point) const {
    const int64_t data = point.data * point.sharded * point.space;
    const auto others = static_cast<double>(point.stages * data);
    const auto tensor = static_cast<double>(point.tensor);
    const double rate = cluster_.type(0).cost.flops_rate(OperationClass::kMatmul, products_);
    const double compute = (tensor_flops_ / tensor + flops_ - tensor_flops_) / others / rate;
    // As many micro-batches as preset_plan aims at: two for each stage.
    const double fill =
        static_cast<double>(point.stages - 1) / static_cast<double>(2 * point.stages);
    const double gradients =
        2 * parameters_ / (tensor * static_cast<double>(point.stages)) * share_sent(data);
    return compute * (1 + fill) + gradients / bandwidth(point.ranks() / point.stages) +
           2 * exchanged_ / others * share_sent(point.tensor) / bandwidth(point.tensor);
  }

 private:
  /// Of a reduce-scatter over `ranks` ranks.
  static double share_sent(int64_t ranks) {
    return static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  }
  /// From the first device to the last one of so many.
  double bandwidth(int64_t ranks) const {
    const auto last = std::min<int64_t>(ranks, cluster_.device_count()) - 1;
    return cluster_.link(0, static_cast<DeviceId>(last)).bytes_per_second;
  }

  const Cluster& cluster_;
  DType products_;
  double parameters_ = 0, flops_ = 0, tensor_flops_ = 0, exchanged_ = 0;
};

/// Sorts the points by their estimates and keeps `max_presets`, but always those of one axis alone.
/// Returns how many it drops.
int64_t keep_best(const PlanRequest& request, const PlanConstraints& constraints,
                  int64_t max_presets, std::vector<GridPoint>& points) {
  const QuickEstimate estimate(request);
  std::vector<std::tuple<bool, double, size_t>> keys;  // always kept, estimate, position
  for (size_t i = 0; i < points.size(); ++i) {
    const bool is_kept =
        points[i].ranks() == constraints.ranks &&
        (points[i].is_only(&GridPoint::data) || points[i].is_only(&GridPoint::tensor));
    keys.emplace_back(!is_kept, estimate.seconds(points[i]), i);
  }
  std::ranges::sort(keys);
  const auto always =
      std::ranges::count(keys, false, [](const auto& key) { return std::get<0>(key); });
  const int64_t dropped =
      std::max<int64_t>(std::ssize(keys) - std::max<int64_t>(max_presets, always), 0);
  keys.resize(keys.size() - dropped);
  std::ranges::sort(keys, {},
                    [](const auto& key) { return std::pair(std::get<1>(key), std::get<2>(key)); });
  std::vector<GridPoint> kept;
  for (const auto& key : keys) kept.push_back(points[std::get<2>(key)]);
  points = std::move(kept);
  return dropped;
}

void add_preset(const PlanRequest& request, const std::vector<Mark>& marks, const std::string& text,
                PresetGrid& grid) {
  try {
    Preset preset = parse_preset(text);
    preset.decisions.marks = marks;
    grid.candidates.push_back(
        {Candidate::Source::kPreset, text, preset_plan(preset, request.graph)});
    grid.candidates.back().zero = preset.zero;
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    grid.unusable.push_back({text, error.what_happened(), error.why(), error.fix()});
  }
}

/// With boundaries: fixes as many stages as they make. Returns the least ranks that these need for
/// each one of the fixed degrees; stages may have different numbers of ranks.
int64_t fix_stages(PlanConstraints& constraints, const std::string& origin) {
  if (constraints.boundaries.empty()) return 1;
  const std::string key(kPipelineKey);
  const auto stages = static_cast<int64_t>(constraints.boundaries.size()) + 1;
  const auto fixed = constraints.degrees.find(key);
  if (fixed == constraints.degrees.end()) return constraints.degrees[key] = stages;
  if (fixed->second == stages || 2 * fixed->second == stages) return 1;
  throw UserError(origin + " has boundaries of " + counted(stages, "stage") +
                      " and pp=" + std::to_string(fixed->second),
                  "a boundary is between two stages, and all of them are listed",
                  "remove pp, or list one less than the stages", ExitCode::kBadConfig);
}

}  // namespace

bool fixes_decision(const PlanConstraints& constraints, std::string_view key) {
  return ("," + constraints.decisions).find("," + std::string(key) + "=") != std::string::npos;
}

namespace {

/// Does a search for placements or for stages not know this value?
bool is_of_presets_alone(std::string_view key, std::string_view value) {
  constexpr std::string_view kKeys[] = {kShardedDataAxis, kMasterWeightsKey, kSequenceKey,
                                        kChunksKey, kStageLayersKey};
  return std::ranges::find(kKeys, key) != std::end(kKeys) || (key == kZeroKey && value != "0");
}

}  // namespace

PlanConstraints constraints_of(int ranks, bool may_use_fewer, const std::string& fixed,
                               const std::string& origin) {
  PlanConstraints constraints{ranks, may_use_fewer};
  if (fixed.empty()) return constraints;
  // Refuses what no preset has. A schedule is of pipelines.
  const PlanConstraints given{.decisions = fixed};
  const bool is_of_any_pipeline = fixes_decision(given, "schedule") &&
                                  !fixes_decision(given, kPipelineKey) &&
                                  !fixes_decision(given, "micro_batches");
  const Preset preset = parse_preset((is_of_any_pipeline ? "pp=2," : "") + fixed);
  constraints.boundaries = preset.boundaries;
  constraints.hardware = preset.hardware;
  const auto keys = degree_keys();
  std::vector<std::string> decisions;
  int64_t product = 1, divisor = 1;  // stages may have different numbers of ranks
  for (const std::string& item : split_text(fixed, ',')) {
    const size_t equals = item.find('=');
    const std::string key(trim(std::string_view(item).substr(0, equals)));
    const std::string value(trim(std::string_view(item).substr(equals + 1)));
    constraints.has_presets_alone |= is_of_presets_alone(key, value);
    if (std::ranges::find(keys, key) == keys.end()) {
      if (key != kStagesKey || value == "equal") decisions.push_back(key + "=" + value);
    } else if (value != kRest) {
      product *= constraints.degrees[key] = std::stoll(value);
      if (key != kPipelineKey) divisor *= constraints.degrees[key];
    }
  }
  if (preset.chunks > 1 && !fixes_decision(given, "schedule"))
    decisions.emplace_back("schedule=interleaved");
  constraints.decisions = join(decisions, ",");
  const int64_t stages = fix_stages(constraints, origin + " " + fixed);
  if (product * stages > ranks || (!may_use_fewer && ranks % divisor != 0))
    throw UserError(
        origin + " " + fixed + " does not fit " + counted(ranks, "rank"),
        "the fixed degrees make " + std::to_string(product * stages) +
            (product * stages > ranks ? ", which is more" : ", which does not divide it"),
        "fix smaller degrees, or plan for a multiple of " + counted(product * stages, "rank"),
        ExitCode::kBadConfig);
  return constraints;
}

PlanConstraints with_marks_of(const Plan& plan, PlanConstraints constraints) {
  const auto refuse = [&](const std::string& what, const std::string& why, const std::string& fix) {
    throw UserError("the marks of '" + plan.name + "' " + what, why, fix, ExitCode::kBadConfig);
  };
  if (plan.marks.empty() || plan.meshes.size() != 1)
    refuse("cannot be fixed",
           plan.marks.empty() ? "it has none" : "they are on several meshes, which are stages",
           "fix marks on one mesh, or degrees such as dp=2,tp=2");
  const MeshPtr& mesh = plan.meshes.front().mesh;
  if (!constraints.allows(mesh->size()))
    refuse("are on " + counted(mesh->size(), "rank") + " and the plan is for " +
               counted(constraints.ranks, "rank"),
           "every plan has their mesh, " + to_text(*mesh), "plan for as many ranks");
  for (const auto& [name, size] : constraints.degrees)
    if (size_of_axis(*mesh, name) != size)
      refuse("are on the mesh " + to_text(*mesh) + ", and " + name + "=" + std::to_string(size) +
                 " is fixed",
             "every plan has the mesh of the marks", "fix only one of them, or equal sizes");
  constraints.ranks = mesh->size();
  constraints.may_use_fewer = false;
  constraints.mesh = mesh;
  constraints.marks = plan.marks;
  return constraints;
}

Plan decisions_of(const PlanConstraints& constraints) {
  if (constraints.decisions.empty()) return Plan();
  if (!fixes_decision(constraints, "schedule") || fixes_decision(constraints, "micro_batches"))
    return parse_preset(constraints.decisions).decisions;
  // A schedule alone is read with stages, which have several micro-batches.
  Plan plan = parse_preset("pp=2," + constraints.decisions).decisions;
  plan.micro_batches = 1;
  return plan;
}

std::vector<int> rank_counts(const PlanConstraints& constraints) {
  std::vector<int> counts;
  for (int ranks = constraints.ranks; ranks > 1; --ranks)
    if (ranks == constraints.ranks ||
        (constraints.may_use_fewer &&
         (constraints.ranks <= kSearchPolicy.all_counts_ranks || constraints.ranks % ranks == 0)))
      counts.push_back(ranks);
  return counts;
}

Candidate one_device(const PlanConstraints& constraints) {
  Plan plan = serial_plan();
  if (fixes_decision(constraints, "micro_batches"))
    plan.micro_batches = parse_preset(constraints.decisions).decisions.micro_batches;
  return {Candidate::Source::kOneDevice, "one device", std::move(plan)};
}

PresetGrid preset_grid(const PlanRequest& request, const PlanConstraints& constraints,
                       int64_t max_presets) {
  std::vector<GridPoint> points = points_of(constraints);
  std::erase_if(points, [](const GridPoint& point) { return point.ranks() == 1; });
  PresetGrid grid;
  grid.left_out = keep_best(request, constraints, max_presets, points);
  for (const GridPoint& point : points)
    add_preset(request, constraints.marks, text_of(point, constraints.decisions), grid);
  return grid;
}

std::vector<Candidate> with_micro_batches(const PlanRequest& request,
                                          const PlanConstraints& constraints,
                                          const std::vector<Candidate>& presets) {
  PresetGrid grid;
  if (fixes_decision(constraints, "micro_batches")) return {};
  const int64_t rows = batch_rows(request.graph);
  for (const Candidate& preset : presets)
    for (int64_t count = 2; count <= std::min(rows, kMaxMicroBatches); count *= 2)
      if (rows % count == 0 && count > preset.plan.micro_batches)
        add_preset(request, constraints.marks,
                   preset.name + ",micro_batches=" + std::to_string(count), grid);
  return std::move(grid.candidates);
}

}  // namespace tessera
