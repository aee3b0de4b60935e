// A vision encoder beside a language model on the same ranks. The one has large results and small
// weights, the other large weights and few tokens, so that the fastest plan divides them
// differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "captions_network.h"
#include "cluster/cluster/cluster_file.h"
#include "ir/models/graphs.h"
#include "planner/search/sources/placement_source.h"
#include "training/engine/engine.h"
#include "training/engine/programs/program_plans.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

using testing::ElementsAre;

constexpr int kRanks = 8;
const CaptionSizes kSizes;

TrainingSettings settings() {
  TrainingSettings made;
  made.train = {.batch = kSizes.rows, .steps = 2, .seed = 3};
  return made;
}

/// Devices that are slow beside their launches, on a network.
Cluster slow_devices() {
  ClusterDescription description = parse_cluster_line("8xv100").description();
  description.types.front().cost.flops_per_second /= 1000;
  description.types.front().cost.bytes_per_second /= 1000;
  return Cluster(description);
}

class VisionLanguage : public testing::Test {
 protected:
  VisionLanguage() {
    PlanSearchOptions options;
    options.constraints = constraints_of(kRanks, false);
    options.sources = placement_searches();
    options.excludes = false;
    result_ = find_plan(request_, options);
  }

  const Candidate& best() const { return result_.candidates.at(result_.best.value()).candidate; }
  /// The dims that are divided over the ranks where `value` is made.
  std::vector<int> divided_dims(const std::string& value) {
    if (!compiled_) {
      Plan plan = best().plan;
      compiled_ = compile_on(request_, plan);
    }
    const DistAttr& attr = compiled_->sharded.at(*compiled_->graph.find_value(value));
    std::vector<int> dims;
    for (int dim = 0; dim < std::ssize(attr.dims); ++dim)
      if (!attr.dims[static_cast<size_t>(dim)].axes.empty()) dims.push_back(dim);
    return dims;
  }

  const Network network_ = captions_network(kSizes);
  const Graph graph_ = training_graph(network_, {}, kSizes.rows, 3);
  const Cluster cluster_ = slow_devices();
  const PlanRequest request_{graph_, cluster_};
  PlanSearchResult result_;
  std::optional<Compiled> compiled_;
};

// Images through the encoder; columns, then rows, of the products (Megatron, arXiv 1909.08053).
TEST_F(VisionLanguage, IsDividedByImagesAndByColumns) {
  for (const std::string name : {"vision.conv0.conv", "vision.conv1.conv", "vision.conv2.conv"})
    EXPECT_THAT(divided_dims(name), ElementsAre(0)) << name;
  for (const std::string layer : {"language.ffn0", "language.ffn1"}) {
    EXPECT_THAT(divided_dims(layer + ".up.dot"), ElementsAre(2)) << layer;
    EXPECT_THAT(divided_dims(layer + ".down.weight"), ElementsAre(0)) << layer;
  }
}

// A preset divides both in one way.
TEST_F(VisionLanguage, IsFasterThanEveryPreset) {
  const Seconds step = result_.candidates.at(result_.best.value()).step();
  int presets = 0;
  for (const EvaluatedCandidate& other : result_.candidates) {
    if (other.candidate.source != Candidate::Source::kPreset) continue;
    ++presets;
    EXPECT_LT(step.value(), 0.95 * other.step().value()) << other.candidate.name;
  }
  EXPECT_GE(presets, 8);
}

TEST_F(VisionLanguage, ComputesWhatTheSerialProgramComputes) {
  const auto data = std::make_shared<const CaptionedImages>(kSizes);
  const VerifyReport report = verify_plan(
      network_, settings(), with_other_programs(network_, settings(), best().plan),
      std::make_shared<const RunData>(RunData{.train = data, .held_out = data, .unit = "caption"}),
      {.steps = 1});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "losses");
}

}  // namespace
}  // namespace tessera
