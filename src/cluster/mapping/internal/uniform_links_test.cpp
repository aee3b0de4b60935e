#include "cluster/mapping/internal/uniform_links.h"

#include <gtest/gtest.h>

#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

void expect_links_of_tree(const DeviceTree& tree, const UniformLinks& links) {
  for (Place a = 0; a < tree.size(); ++a)
    for (Place b = 0; b < tree.size(); ++b) {
      if (a == b) continue;
      const LinkPrice expected = tree.link(a, b), found = links.prices()[links.level(a, b)];
      EXPECT_EQ(found.per_byte, expected.per_byte) << a << " to " << b;
      EXPECT_EQ(found.per_message, expected.per_message) << a << " to " << b;
    }
}

TEST(UniformLinksTest, AreThoseOfTheTreeForAllPairs) {
  for (const std::vector<int>& fans :
       std::vector<std::vector<int>>{{8}, {1, 6}, {3, 5}, {7, 2, 5}, {2, 3, 4, 5}, {64, 3}}) {
    const DeviceTree tree{Cluster(tree_of(fans))};
    const auto links = UniformLinks::from(tree);
    ASSERT_TRUE(links.has_value());
    expect_links_of_tree(tree, *links);
  }
}

TEST(UniformLinksTest, AreThoseOfATreeWhoseGroupsDiffer) {
  // Of 60 devices in 5 racks of 3 machines of 4, a part: racks of 12, 9, 6, ... devices.
  const DeviceTree whole{Cluster(tree_of({4, 3, 5}))};
  std::vector<bool> kept(whole.size(), true);
  for (const Place p : {13, 17, 21, 24, 25, 26, 27, 40, 59}) kept[p] = false;
  const DeviceTree tree = whole.keep(kept);
  const auto links = UniformLinks::from(tree);
  if (links) expect_links_of_tree(tree, *links);
}

TEST(UniformLinksTest, AreNoneWhereMachinesDiffer) {
  ClusterDescription made = tree_of({4, 2});
  MachineGroup slow = made.machines[0];
  made.machines[0].names = {"n0"};
  slow.names = {"n1"};
  slow.levels = {{level("l0", 100), 0}};
  made.machines.push_back(slow);
  EXPECT_FALSE(UniformLinks::from(DeviceTree(Cluster(made))).has_value());
}

TEST(UniformLinksTest, AreNoneWithDirectLinks) {
  ClusterDescription made = tree_of({4, 2});
  made.direct.push_back({0, 5, {Seconds(1e-6), 1e12}});
  EXPECT_FALSE(UniformLinks::from(DeviceTree(Cluster(made))).has_value());
}

}  // namespace
}  // namespace tessera
