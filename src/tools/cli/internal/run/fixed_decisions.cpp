#include "tools/cli/internal/run/fixed_decisions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/plan/preset.h"
#include "planner/presets/stages.h"

namespace tessera {
namespace {

constexpr const char* kParallel = "[parallel]";
constexpr const char* kFix = "--fix";

/// "dp=2,micro_batches=4", all that is fixed of a preset but its marks.
std::string text_of(const Preset& preset) {
  return preset.decisions_text.empty() ? preset.text : preset.text + "," + preset.decisions_text;
}

std::string key_of(const std::string& item) {
  return std::string(trim(std::string_view(item).substr(0, item.find('='))));
}

/// The items of both, each once.
///   throws  UserError (78) for a key with two values
std::string both(const std::string& parallel, const std::string& fixed) {
  std::vector<std::string> items = split_text(parallel, ',');
  for (std::string item : split_text(fixed, ',')) {
    std::erase(item, ' ');
    const auto same = std::ranges::find(items, key_of(item), key_of);
    if (same == items.end()) {
      items.push_back(item);
    } else if (*same != item) {
      throw UserError(std::string(kFix) + " " + item + " contradicts " + kParallel + " " + *same,
                      "a plan obeys the degrees of the configuration and those of the command line",
                      "remove one of the two, or give both the same value", ExitCode::kBadConfig);
    }
  }
  return join(items, ",");
}

/// The mesh of the degrees of a preset with its marks alone.
Plan marks_of(const Preset& preset, int ranks) {
  Shape shape;
  std::vector<std::string> axes;
  int64_t others = preset.stages;
  for (const PresetAxis& axis : preset.axes) others *= axis.size.value_or(1);
  for (const PresetAxis& axis : preset.axes) {
    const int64_t size = axis.size.value_or(std::max<int64_t>(1, ranks / others));
    if (size == 1) continue;
    shape.push_back(size);
    axes.emplace_back(axis.name);
  }
  if (preset.stages > 1 || axes.empty())
    throw UserError(std::string("the marks of ") + kParallel + " cannot be fixed",
                    "the degrees " + preset.text + " give no single mesh that has axes",
                    "fix marks on the mesh of dp, sp and tp, or degrees alone",
                    ExitCode::kBadConfig);
  Plan plan{.name = kParallel};
  plan.meshes = one_mesh(std::make_shared<const Mesh>(shape, axes));
  plan.marks = preset.decisions.marks;
  return plan;
}

/// The marks that bind, on their mesh; nullopt: none do.
std::optional<Plan> marked_plan(const ConfigFile& file, int ranks) {
  if (file.preset && !file.preset->decisions.marks.empty()) return marks_of(*file.preset, ranks);
  if (file.plan && !file.plan->marks.empty()) return file.plan;
  return std::nullopt;
}

}  // namespace

PlanConstraints fixed_decisions(const ConfigFile& file, const std::string& fixed,
                                const Graph& graph, int ranks, bool may_use_fewer) {
  const bool is_file = !fixed.empty() && !is_preset(fixed);
  const std::string parallel = file.preset ? text_of(*file.preset) : "";
  const std::string option = is_file ? "" : fixed;
  PlanConstraints constraints = parallel.empty() || option.empty()
                                    ? constraints_of(ranks, may_use_fewer, parallel + option,
                                                     parallel.empty() ? kFix : kParallel)
                                    : constraints_of(ranks, may_use_fewer, both(parallel, option),
                                                     std::string(kParallel) + " and " + kFix);
  stages_after(graph, constraints.boundaries);  // refuses names that the model has not
  const std::optional<Plan> marked = marked_plan(file, ranks);
  if (marked && is_file)
    throw UserError(std::string(kFix) + " " + fixed + " contradicts the marks of " + kParallel,
                    "every plan has the mesh of the marks, and there are marks of two plans",
                    "put all marks into one of the two", ExitCode::kBadConfig);
  if (marked) return with_marks_of(*marked, std::move(constraints));
  if (!is_file) return constraints;
  const Plan plan = read_plan(fixed, ranks);
  check_fits(plan, graph);
  return with_marks_of(plan, std::move(constraints));
}

}  // namespace tessera
