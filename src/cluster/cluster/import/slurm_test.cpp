#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"
#include "cluster/cluster/internal/import/switch_tree.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string slurm_refusal(std::string_view text) {
  return error_testing::message_of(ExitCode::kBadConfig,
                                   [&] { parse_slurm_topology(text, "topology.conf"); });
}

constexpr std::string_view kThreeLevels = R"(# Switches of the cluster
SwitchName=leaf0 Nodes=gpu[0-1]
SwitchName=leaf1 Nodes=gpu[2-3] LinkSpeed=200
switchname=leaf2  nodes=gpu[4-5]   # lower case counts, too
SwitchName=leaf3 Nodes=gpu6,gpu7

SwitchName=spine0 Switches=leaf[0-1]
SwitchName=spine1 \
  Switches=leaf[2-3]
SwitchName=core Switches=spine[0-1]
)";

TEST(SlurmTopology, SwitchesAreLevelsFromTheMachinesUp) {
  const SwitchTree tree = parse_slurm_topology(kThreeLevels, "topology.conf");
  EXPECT_THAT(tree.machines,
              ElementsAre("gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7"));
  ASSERT_EQ(tree.switch_of_child.size(), 3);
  EXPECT_THAT(tree.switch_of_child[0], ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(tree.switch_of_child[1], ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(tree.switch_of_child[2], ElementsAre(0, 0));
}

TEST(SlurmTopology, TheOrderOfTheLinesHasNoMeaning) {
  const SwitchTree tree = parse_slurm_topology(
      "SwitchName=top Switches=b,a\nSwitchName=b Nodes=n1\nSwitchName=a Nodes=n0\n", "t");
  EXPECT_THAT(tree.machines, ElementsAre("n1", "n0"));
  ASSERT_EQ(tree.switch_of_child.size(), 2);
  EXPECT_THAT(tree.switch_of_child[0], ElementsAre(0, 1));
}

TEST(SlurmTopology, AnUnevenTreeHasSwitchesOfOneChildBetween) {
  // top joins leaf 'c' and switch 's', which joins the leaves 'a' and 'b'.
  const SwitchTree tree = parse_slurm_topology(
      "SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1\nSwitchName=c Nodes=n2\n"
      "SwitchName=s Switches=a,b\nSwitchName=top Switches=s,c\n",
      "t");
  ASSERT_EQ(tree.switch_of_child.size(), 3);
  EXPECT_THAT(tree.switch_of_child[0], ElementsAre(0, 1, 2));
  EXPECT_THAT(tree.switch_of_child[1], ElementsAre(0, 0, 1));
  EXPECT_THAT(tree.switch_of_child[2], ElementsAre(0, 0));
}

TEST(SlurmTopology, BlocksAreJoinedByASwitch) {
  const SwitchTree tree = parse_slurm_topology(
      "BlockName=b1 Nodes=n[00-01]\nBlockName=b2 Nodes=n[02-03]\nBlockSizes=2,4\n", "t");
  EXPECT_THAT(tree.machines, ElementsAre("n00", "n01", "n02", "n03"));
  ASSERT_EQ(tree.switch_of_child.size(), 2);
  EXPECT_THAT(tree.switch_of_child[0], ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(tree.switch_of_child[1], ElementsAre(0, 0));
}

TEST(SlurmTopology, CyclesAreRefused) {
  EXPECT_THAT(slurm_refusal("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
              AllOf(HasSubstr("topology.conf:1: switch 'a' is below itself: it joins 'b'"),
                    HasSubstr("why: the switches are a tree")));
  EXPECT_THAT(slurm_refusal("SwitchName=a Switches=a\n"), HasSubstr("it joins 'a'"));
  // A tree beside a cycle.
  EXPECT_THAT(
      slurm_refusal("SwitchName=r Nodes=n0\nSwitchName=a Switches=b\nSwitchName=b Switches=c\n"
                    "SwitchName=c Switches=a\n"),
      AllOf(HasSubstr("is below itself"), HasSubstr("remove one of the switches")));
}

TEST(SlurmTopology, WhatIsNamedTwiceIsRefusedWithBothLines) {
  EXPECT_THAT(slurm_refusal("SwitchName=a Nodes=n[0-2]\nSwitchName=b Nodes=n[2-3]\n"),
              AllOf(HasSubstr("topology.conf:2: machine 'n2' is below switch 'b'"),
                    HasSubstr("'a' of line 1")));
  EXPECT_THAT(slurm_refusal("SwitchName=a Nodes=n0,n0\n"), HasSubstr("'n0' is below switch 'a'"));
  EXPECT_THAT(
      slurm_refusal("SwitchName=a Nodes=n0\n\nSwitchName=a Nodes=n1\n"),
      AllOf(HasSubstr("topology.conf:3: switch 'a' is described twice"), HasSubstr("line 1")));
  EXPECT_THAT(
      slurm_refusal("SwitchName=a Nodes=n0\nSwitchName=s Switches=a\nSwitchName=t Switches=a,s"),
      HasSubstr("topology.conf:3: switch 'a' is below switch 't'"));
}

TEST(SlurmTopology, LinesThatAreNoSwitchAreRefused) {
  EXPECT_THAT(slurm_refusal("# empty\n"), HasSubstr("the file names no switches"));
  EXPECT_THAT(slurm_refusal("SwitchName=a\n"), HasSubstr("switch 'a' has no children"));
  EXPECT_THAT(slurm_refusal("SwitchName=a Nodes=n0 Switches=b\n"), HasSubstr("Nodes and Switches"));
  EXPECT_THAT(slurm_refusal("Nodes=n0\n"), HasSubstr("the line names no switch"));
  EXPECT_THAT(slurm_refusal("SwitchName=a nodes\n"), HasSubstr("'nodes' is no key with a value"));
  EXPECT_THAT(slurm_refusal("\nSwitchName=a Nodes=n[3-1]\n"),
              AllOf(HasSubstr("topology.conf:2: 'n[3-1]' is no list"), HasSubstr("ends before")));
  EXPECT_THAT(slurm_refusal("SwitchName=leaf1 Nodes=n0\nSwitchName=s Switches=laef1\n"),
              AllOf(HasSubstr("topology.conf:2: switch 's' joins switch 'laef1'"),
                    HasSubstr("fix: write 'leaf1'")));
  EXPECT_THAT(slurm_refusal("SwitchName=a Nodes=n0\nSwitchName=b Nodes=n1\n"),
              AllOf(HasSubstr("no switch joins 'b' with 'a'"), HasSubstr("Switches=a,b")));
  std::string chain = "SwitchName=s0 Nodes=n0\n";
  for (int i = 1; i < 20; ++i)
    chain += "SwitchName=s" + std::to_string(i) + " Switches=s" + std::to_string(i - 1) + "\n";
  EXPECT_THAT(slurm_refusal(chain), HasSubstr("at most 16 levels"));
}

// A line of a few bytes may stand for any number of names.
TEST(SlurmTopology, MoreNamesThanThereAreMachinesAreRefused) {
  EXPECT_THAT(slurm_refusal("SwitchName=a Nodes=n[0-65536]\n"),
              HasSubstr("more than 65,536 names"));
  EXPECT_THAT(slurm_refusal("SwitchName=a Nodes=r[00-81]s[00-81]n[00-81]\n"),
              HasSubstr("more than 65,536 names"));
  std::string lines;
  for (const char* name : {"a", "b", "c"})
    lines += std::string("SwitchName=") + name + " Nodes=" + name + "[0-65535]\n";
  EXPECT_THAT(slurm_refusal(lines),
              HasSubstr("topology.conf:3: the file has more than 131,072 names"));
  EXPECT_THAT(slurm_refusal("SwitchName=a Nodes=n[0-9]" + std::string(255, 'x') + "\n"),
              HasSubstr("more than 255 characters"));
}

}  // namespace
}  // namespace tessera
