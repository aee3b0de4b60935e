#include "planner/search/answers/measured_choice.h"

namespace tessera {

void choose_by_measurement(PlanSearchResult& result, const PlanConstraints& constraints,
                           int64_t count, const StepMeasurement& measure) {
  MeasuredChoice choice;
  // Those that fit are in the order of their predicted steps.
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    if (std::ssize(choice.candidates) == count) break;
    const EvaluatedCandidate& candidate = result.candidates[i];
    if (!candidate.fits() || !obeys(candidate.candidate, constraints)) continue;
    const Seconds step = measure(candidate);
    if (choice.candidates.empty() || step < choice.candidates[choice.fastest].step) {
      choice.fastest = choice.candidates.size();
      result.best = i;
    }
    choice.candidates.push_back({i, step});
  }
  if (!choice.candidates.empty()) result.measured = std::move(choice);
}

}  // namespace tessera
