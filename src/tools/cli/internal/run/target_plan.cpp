#include "tools/cli/internal/run/target_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"
#include "tools/cli/internal/option_parser.h"

namespace tessera {

GivenSetting given_setting(Target target, const std::string& text_or_file) {
  GivenSetting given{current_text(text_or_file), {}};
  given.run = current_run(target, given.text);
  return given;
}

std::vector<std::string> sets_of(const CurrentRun& run) {
  std::vector<std::string> sets;
  if (run.rows) sets.push_back(fmt::format("train.batch={}", *run.rows));
  if (run.context) sets.push_back(fmt::format("model.context={}", *run.context));
  return sets;
}

Target target_named(const std::string& name) {
  if (const std::optional<Target> target = find_target(name)) return *target;
  refuse_usage("'" + name + "' is no target",
               "plans are written for " + join(target_names(), ", ") +
                   "; free is a plan of all that our own runtime can do",
               "use one of them");
}

TargetPlan TargetPlanned::written(const ParallelSetting& setting, const std::string& model_name,
                                  const std::string& verdict) const {
  return {.target = target,
          .setting = setting,
          .model = result.model,
          .model_name = model_name,
          .ranks_of_machine = result.machines.ranks_of_machine,
          .verdict = verdict};
}

TargetPlanned find_target_plan(const Planned& planned, Target target,
                               const std::optional<GivenSetting>& given,
                               const EvaluationOptions& evaluation) {
  TargetPlanned found{.planned = planned, .target = target, .result = {}};
  TargetSearch search{.config = planned.config,
                      .cluster = *planned.cluster,
                      .target = target,
                      .ranks = planned.constraints.ranks,
                      .stop = evaluation.stop,
                      .progress = evaluation.progress};
  if (given) {
    const std::optional<TransformerSizes> model = transformer_sizes(planned.config.model);
    if (model) {
      CurrentSetting current = read_current(target, given->text, *model, planned.constraints.ranks);
      search.current = current.setting;
      found.notes = std::move(current.notes);
    }
  }
  found.result = search_target(search);
  return found;
}

}  // namespace tessera
