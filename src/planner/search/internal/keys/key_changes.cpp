#include "planner/search/internal/keys/key_changes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/plan/preset.h"
#include "planner/presets/presets.h"
#include "planner/presets/stages.h"
#include "planner/search/internal/sources/stage_plans.h"
#include "sharding/propagation/mesh_assignment.h"

namespace tessera {
namespace {

constexpr std::string_view kMicroBatchesKey = "micro_batches", kScheduleKey = "schedule",
                           kRecomputeKey = "recompute", kBucketKey = "bucket_mib",
                           kPrefetchKey = "prefetch_mib", kAllReduceKey = "all_reduce",
                           kChunkedMatmulKey = "collective_matmul", kHalosKey = "halos",
                           kPassesKey = "disabled_passes";
constexpr double kMiB = 1 << 20;

/// A key of plans that a search changes.
struct PlanKey {
  std::string_view name;
  void (*copy)(const Plan& from, Plan& to);
  bool remakes_placements;
};
constexpr std::array<PlanKey, 9> kPlanKeys{{
    {kMicroBatchesKey, [](const Plan& from, Plan& to) { to.micro_batches = from.micro_batches; },
     true},
    {kScheduleKey, [](const Plan& from, Plan& to) { to.schedule = from.schedule; }, false},
    {kRecomputeKey, [](const Plan& from, Plan& to) { to.recompute = from.recompute; }, true},
    {kBucketKey, [](const Plan& from, Plan& to) { to.bucket = from.bucket; }, false},
    {kPrefetchKey, [](const Plan& from, Plan& to) { to.prefetch_window = from.prefetch_window; },
     false},
    {kAllReduceKey, [](const Plan& from, Plan& to) { to.all_reduce = from.all_reduce; }, false},
    {kChunkedMatmulKey,
     [](const Plan& from, Plan& to) { to.collective_matmul = from.collective_matmul; }, false},
    {kHalosKey, [](const Plan& from, Plan& to) { to.halos = from.halos; }, true},
    {kPassesKey, [](const Plan& from, Plan& to) { to.disabled_passes = from.disabled_passes; },
     true},
}};

// ---- names ----

/// Does this part of a name say the key? Pipelines of the search say the schedule alone.
bool says(std::string_view part, std::string_view key) {
  if (part.starts_with(std::string(key) + "=")) return true;
  return key == kScheduleKey &&
         std::ranges::any_of(pipeline_schedules(),
                             [&](const PipelineFacts& facts) { return facts.name == part; });
}

/// The name with key=value in place of what it said of the key, or after it; without it where the
/// value is empty.
std::string with_value(std::string_view name, std::string_view key, const std::string& value,
                       std::string_view separator) {
  std::string made;
  bool is_said = value.empty();
  const std::string text = std::string(key) + "=" + value;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find(',', begin), name.size());
    const size_t word = std::min(name.find_first_not_of(", ", begin), end);
    const std::string_view part = name.substr(word, end - word);
    const std::string_view space = name.substr(begin, word - begin);
    const std::string comma = made.empty() ? "" : ",";
    if (!says(part, key)) {
      made += comma + std::string(space) + std::string(part);
    } else {
      const std::string_view copy =
          part.substr(std::min(part.find(" ("), part.size()));  // the number of an identical plan
      if (!is_said)
        made += comma + std::string(space) + text + std::string(copy);
      else
        made += copy;
      is_said = true;
    }
    begin = end + 1;
  }
  return is_said ? made : made + std::string(separator) + text;
}

bool is_preset(const Candidate& candidate) {
  return candidate.source == Candidate::Source::kPreset;
}

bool has_axis(const Plan& plan, std::string_view axis) {
  return std::ranges::any_of(
      plan.meshes, [&](const NamedMesh& mesh) { return mesh.mesh->find_axis(axis).has_value(); });
}

// ---- values ----

/// Of the values of a key those beside the one that the plan has.
class Values {
 public:
  Values(const PlanConstraints& constraints, KeyRange range,
         std::vector<std::vector<KeyChange>>& out)
      : constraints_(constraints), range_(range), out_(out) {}

  /// The first value is the default.
  void words(std::string_view key, const std::vector<std::string>& values,
             const std::string& present) {
    std::vector<KeyChange> changes;
    for (const std::string& value : values)
      if (value != present) changes.push_back({{{key, value == values.front() ? "" : value}}});
    add(key, std::move(changes));
  }

  /// Ascending; all of them, or the nearest ones below and above.
  void numbers(std::string_view key, const std::set<int64_t>& values, double present,
               int64_t default_value = -1) {
    std::vector<KeyChange> changes;
    const auto first_above = values.upper_bound(static_cast<int64_t>(std::floor(present)));
    for (auto each = values.begin(); each != values.end(); ++each) {
      if (static_cast<double>(*each) == present) continue;
      const bool is_next = each == first_above || std::next(each) == first_above ||
                           (std::next(each) != values.end() && std::next(each, 2) == first_above &&
                            static_cast<double>(*std::next(each)) == present);
      if (range_ == KeyRange::kAll || is_next)
        changes.push_back({{{key, *each == default_value ? "" : std::to_string(*each)}}});
    }
    add(key, std::move(changes));
  }

  void add(std::string_view key, std::vector<KeyChange> changes) {
    if (fixes_decision(constraints_, key)) return;
    std::erase_if(changes, [&](const KeyChange& change) {
      return std::ranges::any_of(change.values, [&](const auto& value) {
        return fixes_decision(constraints_, value.first);
      });
    });
    if (!changes.empty()) out_.push_back(std::move(changes));
  }

  KeyRange range() const { return range_; }

 private:
  const PlanConstraints& constraints_;
  KeyRange range_;
  std::vector<std::vector<KeyChange>>& out_;
};

int64_t degree_of(const Preset& preset, std::string_view axis) {
  if (axis == kPipelineKey) return preset.stages;
  const auto found = std::ranges::find(preset.axes, axis, &PresetAxis::name);
  return found == preset.axes.end() ? 1 : found->size.value_or(1);
}

int64_t smallest_factor(int64_t number) {
  for (int64_t factor = 2; factor * factor <= number; ++factor)
    if (number % factor == 0) return factor;
  return number;
}

std::string degree_text(int64_t degree) {
  return degree > 1 ? std::to_string(degree) : "";
}

/// A factor of one degree moved to another one.
void add_degrees(const Preset& preset, const PlanConstraints& constraints, Values& values) {
  constexpr std::string_view kMoved[] = {kDataAxis, kShardedDataAxis, kSpaceAxis, kTensorAxis,
                                         kPipelineKey};
  std::vector<KeyChange> changes;
  for (const std::string_view from : kMoved)
    for (const std::string_view to : kMoved) {
      const int64_t size = degree_of(preset, from);
      if (from == to || size == 1 || constraints.degrees.contains(from) ||
          constraints.degrees.contains(to))
        continue;
      // Without zero fsdp is dp.
      if (to == kShardedDataAxis && (preset.zero == 0 || from != kDataAxis)) continue;
      const int64_t factor = smallest_factor(size);
      KeyChange change{
          {{from, degree_text(size / factor)}, {to, degree_text(degree_of(preset, to) * factor)}}};
      const bool ends_pipeline = from == kPipelineKey && size == factor;
      if (ends_pipeline) {
        change.values.emplace_back(kScheduleKey, "");
        change.values.emplace_back(kChunksKey, "");
      }
      if (from == kPipelineKey || to == kPipelineKey)
        change.values.emplace_back(kStageLayersKey, "");
      changes.push_back(std::move(change));
    }
  values.add("degrees", std::move(changes));
}

/// Numbers of micro-batches that divide the rows.
void add_micro_batches(const PlanRequest& request, const Candidate& candidate, Values& values) {
  const int64_t present = candidate.plan.micro_batches;
  // Explicit shardings of one micro-batch do not say what several would divide.
  if (candidate.plan.shardings && !candidate.marked && present == 1) return;
  const int64_t rows = batch_rows(request.graph);
  constexpr int64_t kFurthest = 4;
  std::set<int64_t> counts;
  for (int64_t count = 1; count <= std::min(rows, kFurthest * present); ++count)
    if (rows % count == 0 && (count == 1 || kFurthest * count >= present)) counts.insert(count);
  if (values.range() == KeyRange::kNearest) {
    // Twice as many may be faster where the next number is not.
    const auto above = counts.upper_bound(present);
    const auto below = counts.lower_bound(present);
    std::set<int64_t> nearest;
    if (above != counts.end()) nearest.insert(*above);
    if (below != counts.begin()) nearest.insert(*std::prev(below));
    for (const int64_t count : {present / 2, 2 * present})
      if (counts.contains(count)) nearest.insert(count);
    counts = std::move(nearest);
  }
  std::vector<std::vector<KeyChange>> found;
  Values(PlanConstraints(), KeyRange::kAll, found)
      .numbers(kMicroBatchesKey, counts, static_cast<double>(present));
  if (found.empty()) return;
  for (KeyChange& change : found.front())
    if (change.values.front().second == "1") {  // it has no order
      change.values.emplace_back(kScheduleKey, "");
      change.values.emplace_back(kChunksKey, "");
    }
  values.add(kMicroBatchesKey, std::move(found.front()));
}

/// What a preset says of its chunks.
std::string chunks_text(const Candidate& candidate) {
  const int64_t chunks = parse_preset(candidate.name).chunks;
  return chunks > 0 ? std::to_string(chunks) : "";
}

void add_schedules(const Candidate& candidate, const PlanConstraints& constraints, Values& values) {
  const Plan& plan = candidate.plan;
  const auto stages = std::ssize(plan.meshes);
  if (stages < 2 || plan.micro_batches == 1) return;
  constexpr std::string_view kOfOneStage[] = {"1f1b", "eager-1f1b", "zb-h1", "zb-h2"};
  constexpr std::string_view kOfTwoStages[] = {"zb-v", "v-half", "v-min"};
  const bool has_several = device_groups(plan) < stages;
  const bool is_any =
      is_preset(candidate) && constraints.boundaries.empty() && values.range() == KeyRange::kAll;
  std::vector<KeyChange> changes;
  const auto add = [&](std::string_view schedule, const std::string& chunks) {
    KeyChange change{{{kScheduleKey, std::string(schedule)}}};
    const bool is_of_several = std::ranges::find(kOfOneStage, schedule) == std::end(kOfOneStage);
    if (is_any && (is_of_several != has_several || chunks != chunks_text(candidate))) {
      change.values.emplace_back(kChunksKey, chunks);
      change.values.emplace_back(kStageLayersKey, "");
    }
    const int64_t present = stages / std::max<int64_t>(device_groups(plan), 1);
    if (schedule == to_text(plan.schedule) &&
        (chunks.empty() ? present <= 2 : std::to_string(present) == chunks))
      return;
    changes.push_back(std::move(change));
  };
  if (is_any || !has_several)
    for (const std::string_view schedule : kOfOneStage) add(schedule, "");
  if (is_any || has_several) {
    for (const std::string_view schedule : kOfTwoStages) add(schedule, "");
    add("interleaved", "");
    if (is_any && !fixes_decision(constraints, kChunksKey))
      for (const char* chunks : {"3", "4"}) add("interleaved", chunks);
  }
  values.add(kScheduleKey, std::move(changes));
}

/// The stage of each forward op.
std::vector<int> stages_of_forward(const Graph& graph, const Meshes& meshes,
                                   const std::vector<Mark>& marks) {
  const MeshAssignment assigned = assign_meshes(graph, meshes, marks);
  std::vector<int> stages;
  for (size_t i = 0; i < graph.ops().size(); ++i)
    if (graph.ops()[i].role == Role::kForward) stages.push_back(assigned.ops[i]);
  return stages;
}

/// A layer moved to the stage before or behind.
void add_stage_layers(const PlanRequest& request, const Candidate& candidate,
                      const PlanConstraints& constraints, Values& values) {
  const auto count = static_cast<int>(candidate.plan.meshes.size());
  if (count < 2 || !constraints.boundaries.empty()) return;
  const std::vector<int64_t> layers = layers_of_stages(
      request.graph, stages_of_forward(request.graph, candidate.plan.meshes, candidate.plan.marks),
      count);
  std::vector<KeyChange> changes;
  const auto move = [&](int from, int to) {
    std::vector<int64_t> moved = layers;
    if (--moved[from] < 0) return;
    ++moved[to];
    std::vector<std::string> texts;
    for (const int64_t each : moved) texts.push_back(std::to_string(each));
    changes.push_back({{{kStageLayersKey, join(texts, "+")}}});
  };
  // Of many stages those at both ends differ from the others.
  constexpr int kFew = 4;
  for (int stage = 0; stage + 1 < count; ++stage) {
    if (count > kFew && stage > 0 && stage + 2 < count) continue;
    move(stage, stage + 1);
    move(stage + 1, stage);
  }
  values.add(kStageLayersKey, std::move(changes));
}

std::string recompute_text(const Recompute& recompute) {
  switch (recompute.kind) {
    case Recompute::Kind::kNone: return "none";
    case Recompute::Kind::kSelective: return "selective";
    case Recompute::Kind::kFull: return "full";
    case Recompute::Kind::kAuto: return "auto";
    case Recompute::Kind::kPatterns: return "patterns";
  }
  throw InternalError("unknown kind of recompute");
}

void add_preset_keys(const Candidate& candidate, const PlanConstraints& constraints,
                     Values& values) {
  const Preset preset = parse_preset(candidate.name);
  if (!constraints.mesh) add_degrees(preset, constraints, values);
  const bool has_data = degree_of(preset, kDataAxis) > 1 || degree_of(preset, kShardedDataAxis) > 1;
  if (has_data) {
    std::vector<std::string> levels{"0", "1", "3"};
    if (degree_of(preset, kShardedDataAxis) > 1) std::ranges::reverse(levels);
    if (candidate.plan.micro_batches > 1) levels.emplace_back("2");
    values.words(kZeroKey, levels, std::to_string(preset.zero));
    if (preset.zero > 0)
      values.words(kMasterWeightsKey, {"divided", "whole"},
                   preset.master_weights == MasterWeights::kWhole ? "whole" : "divided");
  }
  if (degree_of(preset, kTensorAxis) > 1)
    values.words(kSequenceKey, {"false", "true"}, preset.sequence_parallel ? "true" : "false");
}

void add_exchange_keys(const PlanRequest& request, const EvaluatedCandidate& known,
                       Values& values) {
  const Plan& plan = known.candidate.plan;
  if (request.prefetches_exchanges()) {
    std::set<int64_t> windows{0, 32, 128, 512, 2048};
    const double largest = static_cast<double>(known.traffic.largest_of_variables.value()) / kMiB;
    // A larger gather is made at its turn.
    for (const double count : {2.0, 8.0})
      if (count * largest > 32) windows.insert(std::llround(std::ceil(count * largest)));
    values.numbers(kPrefetchKey, windows, static_cast<double>(plan.prefetch_window.value()) / kMiB,
                   kPrefetchWindow.value() >> 20);
  }
  values.numbers(kBucketKey, {1, 5, 25, 100}, static_cast<double>(plan.bucket.value()) / kMiB,
                 kGradientBucket.value() >> 20);
  values.words(kAllReduceKey, {"auto", "one-shot", "reduce-scatter-all-gather", "hierarchical"},
               std::string(to_text(plan.all_reduce)));
  const int64_t chunks = plan.collective_matmul;
  std::vector<std::string> numbers{"off", "auto"};
  if (chunks != 1) numbers.insert(numbers.end(), {"2", "4", "8"});
  values.words(kChunkedMatmulKey, numbers,
               chunks == kAutoChunks ? "auto"
               : chunks == 1         ? "off"
                                     : std::to_string(chunks));
  if (plan.disabled_passes.size() <= 1)
    values.words(kPassesKey, {"", "combine"},
                 plan.disabled_passes.empty() ? "" : plan.disabled_passes.front());
  if (!plan.shardings && has_axis(plan, kSpaceAxis))
    values.words(kHalosKey, {"auto", "exchange", "recompute"}, std::string(to_text(plan.halos)));
}

/// The plan of a pipeline of the search with other values, from its marks.
Plan remarked(const PlanRequest& request, const PlanConstraints& constraints,
              const Candidate& candidate, Plan plan) {
  const std::vector<int> stages =
      stages_of_forward(request.graph, plan.meshes, candidate.marked->marks);
  plan.marks = constraints.marks;
  plan.shardings.reset();
  return staged_plan(request.graph, stages, std::move(plan), candidate.zero.value_or(0));
}

Candidate with_preset(const PlanRequest& request, const PlanConstraints& constraints,
                      const std::string& text) {
  Preset preset = parse_preset(text);
  preset.decisions.marks = constraints.marks;
  Candidate made{Candidate::Source::kPreset, text, preset_plan(preset, request.graph)};
  made.zero = preset.zero;
  return made;
}

Candidate changed(const PlanRequest& request, const PlanConstraints& constraints,
                  const Candidate& candidate, const KeyChange& change) {
  std::string name = candidate.name;
  for (const auto& [key, value] : change.values)
    name = with_value(name, key, value, is_preset(candidate) ? "," : ", ");
  if (is_preset(candidate)) return with_preset(request, constraints, name);
  Candidate made = candidate;
  made.name = made.plan.name = name;
  made.shorter.clear();  // they have the plan before the change
  bool remakes = false;
  for (const auto& [key, value] : change.values) {
    if (key == kZeroKey) {
      made.zero = value.empty() ? 0 : std::stoi(value);
      remakes = true;
      continue;
    }
    const auto known = std::ranges::find(kPlanKeys, key, &PlanKey::name);
    if (known == kPlanKeys.end()) continue;  // a key of presets alone
    // Some keys are of several micro-batches only.
    std::string text = "pp=2";
    if (key != kMicroBatchesKey) text += ",micro_batches=2";
    if (!value.empty()) text += "," + std::string(key) + "=" + value;
    known->copy(parse_preset(text).decisions, made.plan);
    remakes |= known->remakes_placements;
  }
  if (!candidate.marked) return made;
  if (remakes) {
    Plan marked = remarked(request, constraints, made, made.plan);
    made.plan = explicit_plan(request, marked);
    made.marked = std::make_shared<const Plan>(std::move(marked));
  } else {
    Plan marked = *candidate.marked;
    std::vector<Mark> marks = std::move(marked.marks);
    marked = made.plan;
    marked.shardings.reset();
    marked.marks = std::move(marks);
    made.marked = std::make_shared<const Plan>(std::move(marked));
  }
  return made;
}

}  // namespace

std::vector<std::vector<KeyChange>> key_changes(const PlanRequest& request,
                                                const PlanConstraints& constraints,
                                                const EvaluatedCandidate& known, KeyRange range) {
  const Candidate& candidate = known.candidate;
  std::vector<std::vector<KeyChange>> list;
  Values values(constraints, range, list);
  Seconds exposed{0};
  for (const auto& [axes, time] : known.parts.exposed) exposed += time;
  const Seconds waiting = known.parts.idle + exposed;
  const bool has_exchanges =
      known.fits() && waiting.value() > kSearchPolicy.exchanges_worth * known.step().value();
  const bool are_first = exposed > known.parts.idle;
  if (has_exchanges && are_first) add_exchange_keys(request, known, values);
  if (is_preset(candidate)) add_preset_keys(candidate, constraints, values);
  if (candidate.marked && has_axis(candidate.plan, kDataAxis))
    values.words(kZeroKey, {"0", "1"}, std::to_string(candidate.zero.value_or(0)));
  add_micro_batches(request, candidate, values);
  add_schedules(candidate, constraints, values);
  if (is_preset(candidate)) add_stage_layers(request, candidate, constraints, values);
  if (!candidate.plan.shardings || candidate.marked)
    values.words(kRecomputeKey, {"none", "selective", "full"},
                 recompute_text(candidate.plan.recompute));
  if (has_exchanges && !are_first) add_exchange_keys(request, known, values);
  return list;
}

std::optional<Candidate> with_change(const PlanRequest& request, const PlanConstraints& constraints,
                                     const Candidate& candidate, const KeyChange& change) {
  try {
    return changed(request, constraints, candidate, change);
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return std::nullopt;
  }
}

}  // namespace tessera
