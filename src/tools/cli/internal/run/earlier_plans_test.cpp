#include "tools/cli/internal/run/earlier_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/testing/test_folder.h"
#include "cluster/cluster/cluster_file.h"
#include "compiler/plan/preset.h"

namespace tessera {
namespace {

using testing::IsEmpty;

class EarlierPlansOfATest : public testing::Test {
 protected:
  /// A plan search for an mlp whose data is a text of a few lines.
  Planned planning(const std::string& cluster, int ranks, const std::string& fixed = "",
                   int64_t width = 16) const {
    const std::filesystem::path text = folder_ / "text";
    write_file(text, std::string(4000, 'a') + std::string(4000, 'b'));
    RunConfig config;
    config.model = {.kind = "mlp", .context = 8, .layers = 2, .width = width};
    config.data.path = {text.string()};
    Planned planned = to_be_planned(
        config, std::make_shared<const Cluster>(parse_cluster_line(cluster)), cluster);
    planned.constraints = constraints_of(ranks, false, fixed);
    return planned;
  }

  std::filesystem::path plans() const { return folder_ / "plans"; }

 private:
  TestFolder folder_;
};

void plan_and_keep(Planned planned, const EarlierPlans& earlier) {
  find_result(planned, {});
  ASSERT_TRUE(planned.best());
  earlier.keep(planned, cached_document(planned));
}

TEST_F(EarlierPlansOfATest, APlanForAnotherClusterIsACandidate) {
  const EarlierPlans earlier(plans());
  const Planned other = planning("4xa100-80g", 2);
  EXPECT_THAT(earlier.candidates(other), IsEmpty());
  plan_and_keep(planning("cpu:2", 2), earlier);
  const std::vector<Candidate> found = earlier.candidates(other);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].source, Candidate::Source::kCached);
  EXPECT_THAT(found[0].name, testing::StartsWith("earlier "));
  EXPECT_FALSE(earlier.result(other)) << "it is of another cluster";
  EXPECT_TRUE(earlier.result(planning("cpu:2", 2)));
}

TEST_F(EarlierPlansOfATest, OtherGraphsRanksAndDegreesHaveNone) {
  const EarlierPlans earlier(plans());
  plan_and_keep(planning("cpu:4", 2, "dp=2"), earlier);
  EXPECT_THAT(earlier.candidates(planning("cpu:4", 4)), IsEmpty());
  EXPECT_THAT(earlier.candidates(planning("cpu:4", 2, "tp=2")), IsEmpty());
  EXPECT_THAT(earlier.candidates(planning("cpu:4", 2, "", 32)), IsEmpty());
  EXPECT_THAT(earlier.candidates(planning("cpu:4", 2, "bucket_mib=1")), IsEmpty())
      << "it need not have the other keys that are fixed";
  Planned at_most = planning("cpu:4", 4);
  at_most.constraints.may_use_fewer = true;
  EXPECT_EQ(earlier.candidates(at_most).size(), 1U);
}

TEST_F(EarlierPlansOfATest, TheBestPlanIsNeverWorseThanAnEarlierPlan) {
  const EarlierPlans earlier(plans());
  plan_and_keep(planning("2xa100-80g", 2), earlier);
  Planned planned = planning("cpu:2", 2);
  const std::vector<Candidate> candidates = earlier.candidates(planned);
  find_result(planned, {});
  const Seconds without = planned.best()->step();
  find_result(planned, {.earlier = candidates});
  EXPECT_LE(planned.best()->step(), without);
  const Evaluations alone = evaluate(planned.request(), candidates);
  ASSERT_EQ(alone.evaluated.size(), 1U);
  EXPECT_LE(planned.best()->step(), alone.evaluated[0].step());
}

TEST_F(EarlierPlansOfATest, ADamagedEntryIsNoCandidate) {
  const std::filesystem::path folder = plans();
  const EarlierPlans earlier(folder);
  plan_and_keep(planning("cpu:2", 2), earlier);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string text = read_file(entry.path());
    const size_t at = text.find("\"format\": 1");
    ASSERT_NE(at, std::string::npos) << entry.path();
    write_file(entry.path(), text.replace(at, 11, "\"format\": 9"));
  }
  EXPECT_THAT(earlier.candidates(planning("4xa100-80g", 2)), IsEmpty());
  EXPECT_FALSE(earlier.result(planning("cpu:2", 2)));
  EXPECT_THAT(EarlierPlans(std::nullopt).candidates(planning("cpu:2", 2)), IsEmpty());
}

}  // namespace
}  // namespace tessera
