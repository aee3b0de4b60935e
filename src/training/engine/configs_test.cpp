// Every configuration fits the plans that come with the project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "training/engine/engine.h"

namespace tessera {
namespace {

const std::filesystem::path kConfigFolder = std::filesystem::path(TESSERA_SOURCE_DIR) / "configs";

/// The file names without `extension`, in order.
std::vector<std::string> names_in(const std::filesystem::path& folder,
                                  const std::string& extension) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == extension) names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

// Results and learning would be the same if every rank computed the whole image. Only the
// placements show the division.
TEST(Configs, PlansInSpaceDivideTheRowsOfEveryConvolution) {
  for (const std::string model : {"resnet20", "unet"}) {
    const Plan plan = read_plan(kConfigFolder / "plans" / (model + ".sp2.json"));
    const Graph graph = training_graph(read_config(kConfigFolder / (model + ".toml")));
    const Compiled compiled = compile(graph, plan);
    int convolutions = 0;
    for (const Op& op : compiled.graph.ops()) {
      if (op.kind != "convolution" || op.role != Role::kForward) continue;
      ++convolutions;
      EXPECT_FALSE(compiled.sharded.at(op.outputs.front()).dims[2].axes.empty())
          << model << " " << op.name;
    }
    EXPECT_GT(convolutions, 10) << model;
  }
}

TEST(Configs, HaveAPlanForOneRank) {
  for (const std::string& model : names_in(kConfigFolder, ".toml"))
    EXPECT_THAT(names_in(kConfigFolder / "plans", ".json"), testing::Contains(model + ".serial"));
}

}  // namespace
}  // namespace tessera
