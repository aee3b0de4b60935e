#include "tools/cli/internal/print/plan/target_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/count_text.h"
#include "base/text/text.h"
#include "frontend/targets/rules.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {
namespace {

constexpr double kToldLoss = 0.005;  // of a step: smaller losses are not told
constexpr size_t kToldRows = 10;

std::string need_text(const EvaluatedCandidate& evaluated) {
  return to_text(evaluated.fullest.memory.all()) + " of " +
         to_text(evaluated.fullest.memory.capacity);
}

/// A part of a step, as a loss names it.
struct Loss {
  std::string name;
  double seconds = 0;
};

/// Where `slow` takes longer than `fast`, the largest first.
std::vector<Loss> losses(const TargetResult::Simulated& slow, const TargetResult::Simulated& fast) {
  const MeanBreakdown &from = slow.evaluated.parts, &to = fast.evaluated.parts;
  std::vector<Loss> list;
  const auto add = [&](std::string name, double seconds) {
    list.push_back({std::move(name), seconds});
  };
  const bool recomputes_more = slow.setting.recomputed > fast.setting.recomputed;
  add(recomputes_more ? "computing again" : "computing", (from.compute - to.compute).value());
  add(slow.setting.pipeline > 1 ? "waiting in the pipeline" : "waiting",
      (from.idle - to.idle).value());
  std::map<std::string, Seconds> exposed = from.exposed;
  for (const auto& [axes, time] : to.exposed) exposed[axes] = exposed[axes] - time;
  for (const auto& [axes, time] : exposed)
    add(axes.empty() ? "exposed traffic between stages" : "exposed traffic of " + axes,
        time.value());
  std::ranges::stable_sort(list, std::greater(), &Loss::seconds);
  return list;
}

/// "6% exposed traffic of tp, 3% waiting in the pipeline", of the step of `slow`.
std::string losses_text(const TargetResult::Simulated& slow, const TargetResult::Simulated& fast) {
  std::vector<std::string> parts;
  for (const Loss& loss : losses(slow, fast)) {
    const double share = loss.seconds / fast.evaluated.step().value();
    if (share >= kToldLoss) parts.push_back(fmt::format("{:.2g}% {}", 100 * share, loss.name));
  }
  return join(parts, ", ");
}

std::string flag_line(const Flag& flag) {
  return flag.value.empty() ? flag.name : flag.name + " " + flag.value;
}

Document setting_document(const TargetPlanned& found, const TargetResult::Simulated& simulated) {
  const ParallelSetting& setting = simulated.setting;
  const EvaluatedCandidate& evaluated = simulated.evaluated;
  Document document;
  document["preset"] = evaluated.candidate.name;
  document["replicate"] = setting.replicate;
  document["shard"] = setting.shard;
  document["context"] = setting.context;
  document["tensor"] = setting.tensor;
  document["pipeline"] = setting.pipeline;
  document["chunks"] = setting.chunks;
  document["zero"] = setting.zero;
  document["sequence_parallel"] = setting.sequence_parallel;
  document["recompute"] = std::string(to_text(setting.recomputed));
  document["micro_batch"] = setting.micro_batch;
  document["global_batch"] = setting.global_batch;
  document["stage_layers"] = Document::List{};
  for (const int64_t layers : layers_of_stages(setting, found.result.model.layers))
    document["stage_layers"].append(layers);
  document["fits"] = evaluated.fits();
  document["peak_bytes"] = evaluated.fullest.memory.all().value();
  document["capacity_bytes"] = evaluated.fullest.memory.capacity.value();
  document["step_seconds"] = evaluated.step().value();
  if (simulated.priced) {
    document["priced_seconds"] = simulated.priced->step.value();
    document["priced_bytes"] = simulated.priced->memory.value();
  }
  document["mfu"] = found.planned.utilization(evaluated);
  document["flags"] = Document::List{};
  for (const Flag& flag : flags_of(found.written(setting, "", "")))
    document["flags"].append(flag_line(flag));
  return document;
}

}  // namespace

std::vector<ChangedFlag> changed_flags(const std::vector<Flag>& present,
                                       const std::vector<Flag>& best) {
  std::vector<ChangedFlag> changes;
  const auto find = [](const std::vector<Flag>& list, const Flag& flag) {
    // Subcommands have no value: "activation-checkpoint:full".
    const auto stem = [](const std::string& name) { return name.substr(0, name.find(':')); };
    return std::ranges::find_if(
        list, [&](const Flag& other) { return stem(other.name) == stem(flag.name); });
  };
  for (const Flag& flag : present) {
    const auto other = find(best, flag);
    if (other == best.end())
      changes.push_back({flag_line(flag), ""});
    else if (!(*other == flag))
      changes.push_back({flag_line(flag), flag_line(*other)});
  }
  for (const Flag& flag : best)
    if (find(present, flag) == present.end()) changes.push_back({"", flag_line(flag)});
  return changes;
}

std::string target_verdict(const TargetPlanned& found) {
  const TargetResult::Simulated *best = found.best(), *current = found.current();
  std::string text;
  const std::string devices = counted(found.result.machines.ranks, "device");
  if (!best) {
    text = fmt::format("no setting of {} fits on {}", version_of(found.target), devices);
    if (!found.result.simulated.empty()) {
      const auto least = std::ranges::min_element(
          found.result.simulated, {}, [](const TargetResult::Simulated& simulated) {
            return simulated.evaluated.fullest.missing().value();
          });
      text += fmt::format(": the nearest is {}, which needs {}", least->evaluated.candidate.name,
                          need_text(least->evaluated));
    }
    text += "\n";
  } else {
    text = fmt::format(
        "{} on {}: {}: {} a step, {} {}s/s, MFU {:.1f}%, {}\n", version_of(found.target), devices,
        best->evaluated.candidate.name, step_text(best->evaluated.step()),
        grouped(std::llround(found.planned.units_per_second(best->evaluated))), found.planned.unit,
        100 * found.planned.utilization(best->evaluated), need_text(best->evaluated));
  }
  if (current && !current->evaluated.fits()) {
    text += fmt::format("The present setting, {}, needs {}: it does not fit.\n",
                        current->evaluated.candidate.name, need_text(current->evaluated));
  } else if (current) {
    text += fmt::format("The present setting, {}, needs {} and takes {} a step",
                        current->evaluated.candidate.name, need_text(current->evaluated),
                        step_text(current->evaluated.step()));
    const double more =
        best ? current->evaluated.step().value() / best->evaluated.step().value() - 1 : 0;
    if (best == current) {
      text += ": it is the best that was found.\n";
    } else {
      const std::string why = best ? losses_text(*current, *best) : "";
      text += fmt::format(", {:.3g}% more than the best{}.\n", 100 * more,
                          why.empty() ? "" : ": " + why);
    }
  }
  if (current && best && best != current) {
    std::vector<std::string> changes;
    for (const ChangedFlag& change :
         changed_flags(flags_of(found.written(current->setting, "", "")),
                       flags_of(found.written(best->setting, "", ""))))
      changes.push_back(change.now.empty()      ? "leave out " + change.before
                        : change.before.empty() ? "add " + change.now
                                                : change.now + " in place of " + change.before);
    text += "Change these flags: " + join(changes, "; ") + ".\n";
  }
  if (best && found.free) {
    const double gain = 1 - found.free->step().value() / best->evaluated.step().value();
    text += fmt::format(
        "Without the rules of {} the best plan is {}, {} a step: {}.\n", version_of(found.target),
        found.free->candidate.name, step_text(found.free->step()),
        gain > 0 ? fmt::format("{:.2g}% less", 100 * gain) : "no better than the setting");
  }
  return text;
}

std::string target_ranking(const TargetPlanned& found) {
  TextTable table({"setting", "step", "memory", "MFU", "why"}, "lrrrl");
  const auto& list = found.result.simulated;
  for (size_t i = 0; i < list.size(); ++i) {
    const bool is_current = found.current() == &list[i];
    if (i >= kToldRows && !is_current) continue;
    const EvaluatedCandidate& evaluated = list[i].evaluated;
    std::string why = i == found.result.best ? "the best" : "";
    if (is_current) why += why.empty() ? "the present one" : ", and the present one";
    if (!evaluated.fits())
      why += std::string(why.empty() ? "" : "; ") + "lacks " + to_text(evaluated.fullest.missing());
    else if (found.best() && i != found.result.best && !is_current)
      why = losses_text(list[i], *found.best());
    table.add({evaluated.candidate.name, step_text(evaluated.step()),
               to_text(evaluated.fullest.memory.all()),
               fmt::format("{:.1f}%", 100 * found.planned.utilization(evaluated)), why});
  }
  return fmt::format("\n{} of {} simulated, the others priced in closed form\n{}",
                     counted(std::ssize(list), "setting"), grouped(found.result.settings),
                     table.text());
}

Document target_document(const TargetPlanned& found) {
  Document document;
  document["target"] = std::string(to_text(found.target));
  document["version"] = std::string(version_of(found.target));
  document["devices"] = found.result.machines.ranks;
  document["settings"] = found.result.settings;
  document["best"] = document["current"] = document["free_step_seconds"] = Document();
  if (found.best()) document["best"] = setting_document(found, *found.best());
  if (found.current()) document["current"] = setting_document(found, *found.current());
  if (found.free) document["free_step_seconds"] = found.free->step().value();
  document["changes"] = Document::List{};
  if (found.best() && found.current())
    for (const ChangedFlag& change :
         changed_flags(flags_of(found.written(found.current()->setting, "", "")),
                       flags_of(found.written(found.best()->setting, "", ""))))
      document["changes"].append(Document::Table{{"before", change.before}, {"now", change.now}});
  document["losses"] = Document::Table{};
  if (found.best() && found.current() && found.current() != found.best())
    for (const Loss& loss : losses(*found.current(), *found.best()))
      document["losses"][loss.name] = loss.seconds;
  document["simulated"] = Document::List{};
  for (const TargetResult::Simulated& simulated : found.result.simulated)
    document["simulated"].append(setting_document(found, simulated));
  document["notes"] = Document::List{};
  for (const std::string& note : found.notes) document["notes"].append(note);
  return document;
}

}  // namespace tessera
