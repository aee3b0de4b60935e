#include "tools/cli/internal/print/plan/measured_text.h"

#include <fmt/format.h>

#include "base/text/count_text.h"
#include "planner/search/answers/measured_choice.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {

std::string measured_note(const PlanSearchResult& result) {
  if (!result.measured) return "";
  const MeasuredChoice& choice = *result.measured;
  const auto name_of = [&](const MeasuredChoice::Measured& measured) {
    return result.candidates[measured.candidate].candidate.name;
  };
  const MeasuredChoice::Measured& fastest = choice.candidates[choice.fastest];
  const std::string text =
      fmt::format("{} is the fastest of {} in measured steps, {}", name_of(fastest),
                  counted(std::ssize(choice.candidates), "plan"), step_text(fastest.step));
  if (choice.fastest == 0) return text + "; it was predicted to be the fastest";
  return text + fmt::format("; {}, predicted to be the fastest, takes {:.1f}% longer",
                            name_of(choice.candidates.front()), 100 * choice.regret());
}

std::string measured_text(const PlanSearchResult& result) {
  if (!result.measured) return "";
  TextTable table({"plan", "predicted", "measured", ""}, "lrrl");
  const MeasuredChoice& choice = *result.measured;
  for (const MeasuredChoice::Measured& measured : choice.candidates) {
    const EvaluatedCandidate& candidate = result.candidates[measured.candidate];
    table.add({candidate.candidate.name, step_text(candidate.step()), step_text(measured.step),
               &measured == &choice.candidates[choice.fastest] ? "the best plan" : ""});
  }
  return fmt::format("\nMeasured: the shortest of {} on this machine\n",
                     counted(kMeasuredSteps, "step")) +
         table.text();
}

Document measured_document(const PlanSearchResult& result) {
  Document document;
  if (!result.measured) return document;
  document["steps"] = kMeasuredSteps;
  document["candidates"] = Document::List{};
  for (const MeasuredChoice::Measured& measured : result.measured->candidates) {
    const EvaluatedCandidate& candidate = result.candidates[measured.candidate];
    Document item;
    item["name"] = candidate.candidate.name;
    item["predicted_seconds"] = candidate.step().value();
    item["measured_seconds"] = measured.step.value();
    document["candidates"].append(std::move(item));
  }
  document["regret"] = result.measured->regret();
  return document;
}

}  // namespace tessera
