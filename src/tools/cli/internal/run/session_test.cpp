#include "tools/cli/internal/run/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/sources.h"

namespace tessera {
namespace {

TEST(UnrolledNote, TellsOfLongRecurrentModels) {
  ModelConfig model;
  model.kind = "lstm";
  model.context = 128;
  model.layers = 2;
  EXPECT_EQ(unrolled_note(model), "");
  model.layers = 3;
  EXPECT_THAT(unrolled_note(model),
              testing::HasSubstr("128 positions of 3 layers have operations"));
  model.kind = "gpt";
  EXPECT_EQ(unrolled_note(model), "");
}

TEST(OtherClusterNote, ComparesTheFingerprints) {
  const ClusterDescription four = parse_cluster_line("4xa100-80g").description();
  const ClusterDescription two = parse_cluster_line("2xa100-80g").description();
  Plan plan;
  EXPECT_EQ(other_cluster_note(plan, two, "here", ""), "") << "nothing is known";
  plan.cost.cluster = fingerprint(four);
  EXPECT_EQ(other_cluster_note(plan, four, "here", ""), "");
  EXPECT_EQ(other_cluster_note(plan, two, "2xa100-80g", "; its step is estimated anew"),
            "note: the plan was made for another cluster than 2xa100-80g; its step is estimated "
            "anew\n");
}

}  // namespace
}  // namespace tessera
