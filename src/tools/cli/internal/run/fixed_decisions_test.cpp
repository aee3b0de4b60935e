#include "tools/cli/internal/run/fixed_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/plan/preset.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// A configuration whose [parallel] has these keys.
ConfigFile with_parallel(Document table) {
  ConfigFile file;
  file.preset = parse_preset(table, "config [parallel]");
  return file;
}

Document::List one_mark() {
  return {Document::Table{{"tensor", "x"}, {"placement", "P(\"dp\")"}}};
}

const Graph& graph() {
  static const Graph kGraph = parse_graph("input x: f32[8,4]\noutput y = x\n");
  return kGraph;
}

std::string refusal(const ConfigFile& file, const std::string& fixed, int ranks = 4) {
  try {
    fixed_decisions(file, fixed, graph(), ranks, false);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(FixedDecisions, DegreesOfParallelBind) {
  const PlanConstraints found =
      fixed_decisions(with_parallel(Document::Table{{"dp", 2}, {"tp", 2}, {"micro_batches", 4}}),
                      "", graph(), 4, false);
  EXPECT_THAT(found.degrees, ElementsAre(Pair("dp", 2), Pair("tp", 2)));
  EXPECT_EQ(found.decisions, "micro_batches=4");
  EXPECT_EQ(found.mesh, nullptr);
}

TEST(FixedDecisions, ADegreeOfTheRestIsNotFixed) {
  const PlanConstraints found = fixed_decisions(
      with_parallel(Document::Table{{"dp", "rest"}, {"tp", 2}}), "", graph(), 8, false);
  EXPECT_THAT(found.degrees, ElementsAre(Pair("tp", 2)));
}

TEST(FixedDecisions, DegreesOfTheCommandLineJoinThoseOfParallel) {
  const ConfigFile file = with_parallel(Document::Table{{"dp", 2}, {"all_reduce", "one-shot"}});
  const PlanConstraints found = fixed_decisions(file, "tp=2,dp=2", graph(), 4, false);
  EXPECT_THAT(found.degrees, ElementsAre(Pair("dp", 2), Pair("tp", 2)));
  EXPECT_EQ(found.decisions, "all_reduce=one-shot");
}

TEST(FixedDecisions, ContradictionsAreRefused) {
  EXPECT_THAT(refusal(with_parallel(Document::Table{{"dp", 2}}), "dp=4"),
              HasSubstr("--fix dp=4 contradicts [parallel] dp=2"));
  EXPECT_THAT(
      refusal(with_parallel(Document::Table{{"dp", 2}, {"micro_batches", 2}}), "micro_batches=4"),
      HasSubstr("--fix micro_batches=4 contradicts [parallel] micro_batches=2"));
  EXPECT_THAT(refusal(with_parallel(Document::Table{{"dp", 3}}), ""),
              HasSubstr("[parallel] dp=3 does not fit 4 ranks"));
  EXPECT_THAT(refusal(with_parallel(Document::Table{{"dp", 2}}), "tp=4"),
              HasSubstr("the fixed degrees make 8, which is more"));
}

TEST(FixedDecisions, MarksBesideDegreesBindOnTheirMesh) {
  const ConfigFile file =
      with_parallel(Document::Table{{"dp", 2}, {"tp", "rest"}, {"marks", one_mark()}});
  const PlanConstraints found = fixed_decisions(file, "", graph(), 8, false);
  EXPECT_EQ(to_text(*found.mesh), "dp=2 tp=4");
  ASSERT_EQ(found.marks.size(), 1U);
  EXPECT_EQ(found.marks[0].pattern, "x");
  EXPECT_THAT(refusal(with_parallel(Document::Table{{"pp", 2}, {"marks", one_mark()}}), ""),
              HasSubstr("the marks of [parallel] cannot be fixed"));
}

TEST(FixedDecisions, WithoutParallelNothingIsFixed) {
  const PlanConstraints found = fixed_decisions({}, "", graph(), 4, true);
  EXPECT_TRUE(found.degrees.empty());
  EXPECT_TRUE(found.may_use_fewer);
  EXPECT_EQ(found.decisions, "");
}

}  // namespace
}  // namespace tessera
