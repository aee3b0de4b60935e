// A vision encoder beside a language model on the same ranks. The one has large results and small
// weights, the other large weights and few tokens, so that the fastest plan divides them
// differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "cluster/cluster/cluster_file.h"
#include "ir/models/graphs.h"
#include "ir/models/image_blocks.h"
#include "ir/models/layers.h"
#include "planner/search/sources/placement_source.h"
#include "training/engine/engine.h"
#include "training/engine/programs/program_plans.h"
#include "training/verify/verify.h"

namespace tessera {
namespace {

using testing::ElementsAre;

constexpr int kRanks = 8;
constexpr int64_t kRows = 8, kExtent = 16, kTokens = 4, kWidth = 256, kVocabulary = 64;

/// Images f32[3, 16, 16], and captions i32[4] with their next tokens.
class CaptionedImages : public Dataset {
 public:
  CaptionedImages()
      : Dataset({{"image", {DType::kF32, {3, kExtent, kExtent}}},
                 {"tokens", {DType::kI32, {kTokens}}},
                 {"targets", {DType::kI32, {kTokens}}}}) {}
  int64_t samples() const override { return 4 * kRows; }
  uint64_t fingerprint() const override { return 0xca9710; }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    const RandomStream stream(random_key(3, "captions"), static_cast<uint64_t>(sample));
    const auto image = batch.row<float>("image", row);
    for (size_t i = 0; i < image.size(); ++i) image[i] = stream.uniform(i);
    const auto tokens = batch.row<int32_t>("tokens", row);
    const auto targets = batch.row<int32_t>("targets", row);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(kVocabulary * stream.uniform(image.size() + i));
      targets[i] = (tokens[i] + 1) % kVocabulary;
    }
  }
};

/// Three convolutions to the width of the language model, and the mean over the places.
ValueId encoded(LayerContext& layers, ValueId image) {
  ValueId x = image;
  int number = 0;
  for (const int64_t channels : {16, 32, 32})
    x = relu(layers, square_convolution(layers, x, channels, 3, 1,
                                        "vision.conv" + std::to_string(number++)));
  const ValueId sums = layers.builder.reduce_sum(x, {2, 3}, "vision.sums");
  const ValueId means = layers.builder.mul_scalar(sums, 1.0 / (kExtent * kExtent), "vision.means");
  return linear(layers, means, kWidth, "vision.out");
}

/// Products of the width, with residuals.
ValueId feed_forwards(LayerContext& layers, ValueId x) {
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = "language.ffn" + std::to_string(layer);
    const ValueId up = relu(layers, linear(layers, x, 4 * kWidth, name + ".up"));
    x = layers.builder.add(x, linear(layers, up, kWidth, name + ".down"), name + ".residual");
  }
  return x;
}

void write_captions(Forward& forward) {
  Builder& b = forward.builder();
  LayerContext layers = forward.layers();
  const ValueId image = forward.input("image", {DType::kF32, {3, kExtent, kExtent}}),
                tokens = forward.input("tokens", {DType::kI32, {kTokens}});
  const ValueId seen = encoded(layers, image);
  const ValueId read = embedding(layers, tokens, kVocabulary, kWidth, "language.tokens");
  const ValueId both =
      b.add(read, b.broadcast(seen, {forward.rows(), kTokens, kWidth}, {0, 2}, "language.seen"),
            "language.both");
  const ValueId logits = linear(layers, feed_forwards(layers, both), kVocabulary, "language.head");
  forward.output("logits", logits);
  if (!forward.has_loss()) return;
  const CrossEntropy entropy =
      cross_entropy(layers, logits, forward.input("targets", {DType::kI32, {kTokens}}), "loss");
  forward.output("loss", entropy.loss);
  forward.output("count", entropy.count);
}

Network vision_language() {
  return {.name = "the network of captions",
          .forward = write_captions,
          .count = "count",
          .targets = "targets"};
}

TrainingSettings settings() {
  TrainingSettings made;
  made.train = {.batch = kRows, .steps = 2, .seed = 3};
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
    const DistAttr& attr = compiled_->sharded.of(*compiled_->graph.find_value(value));
    std::vector<int> dims;
    for (int dim = 0; dim < std::ssize(attr.dims); ++dim)
      if (!attr.dims[static_cast<size_t>(dim)].axes.empty()) dims.push_back(dim);
    return dims;
  }

  const Network network_ = vision_language();
  const Graph graph_ = training_graph(network_, {}, kRows, 3);
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
  const auto data = std::make_shared<const CaptionedImages>();
  const VerifyReport report = verify_plan(
      network_, settings(), with_other_programs(network_, settings(), best().plan),
      std::make_shared<const RunData>(RunData{.train = data, .held_out = data, .unit = "caption"}),
      {.steps = 1});
  EXPECT_TRUE(report.ok) << (report.first_difference ? report.first_difference->value : "losses");
}

}  // namespace
}  // namespace tessera
