#include "tools/cli/internal/print/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using Source = Candidate::Source;

EvaluatedCandidate candidate(Source source, const char* mesh) {
  EvaluatedCandidate made;
  made.candidate.source = source;
  made.candidate.plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh)));
  return made;
}

Planned planned_with(std::vector<EvaluatedCandidate> candidates, std::optional<size_t> best) {
  Planned planned;
  planned.result.candidates = std::move(candidates);
  planned.result.best = best;
  return planned;
}

TEST(ReportedCandidates, AreTheBestPlanAndTheFastestThatDiffer) {
  EXPECT_THAT(reported_candidates(planned_with(
                  {candidate(Source::kSearch, "x=4"), candidate(Source::kSearch, "x=4"),
                   candidate(Source::kSearch, "x=2,y=2"), candidate(Source::kPreset, "dp=4"),
                   candidate(Source::kPreset, "tp=4")},
                  0)),
              ElementsAre(0, 2, 3))
      << "1 has the mesh of the best plan";
}

TEST(ReportedCandidates, ComparedPlansComeBeforeOthers) {
  EXPECT_THAT(reported_candidates(planned_with(
                  {candidate(Source::kSearch, "x=4"), candidate(Source::kPreset, "dp=4"),
                   candidate(Source::kCompared, "dp=4"), candidate(Source::kCompared, "dp=4")},
                  0)),
              ElementsAre(0, 2, 3));
}

TEST(ReportedCandidates, TheBestPlanComesFirstAlsoAfterAPlanThatDoesNotObey) {
  EXPECT_THAT(reported_candidates(planned_with(
                  {candidate(Source::kPreset, "dp=2"), candidate(Source::kPreset, "dp=4")}, 1)),
              ElementsAre(1, 0));
}

TEST(ReportedCandidates, WithoutABestPlanTheNearestComesFirst) {
  EXPECT_THAT(reported_candidates(planned_with({candidate(Source::kPreset, "dp=4")}, {})),
              ElementsAre(0));
}

}  // namespace
}  // namespace tessera
