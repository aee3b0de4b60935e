// A vision encoder beside a language model: images and their captions. Test code.
#pragma once

#include <cstdint>
#include <string>

#include "base/random.h"
#include "ir/models/image_blocks.h"
#include "ir/models/layers.h"
#include "ir/models/network.h"
#include "training/data/dataset.h"

namespace tessera {

/// The sizes of the network of captions and of its data.
struct CaptionSizes {
  int64_t rows = 8, extent = 16, tokens = 4, width = 256, vocabulary = 64;
};

/// Images f32[3, extent, extent], and captions i32[tokens] with their next tokens.
class CaptionedImages : public Dataset {
 public:
  explicit CaptionedImages(const CaptionSizes& sizes)
      : Dataset({{"image", {DType::kF32, {3, sizes.extent, sizes.extent}}},
                 {"tokens", {DType::kI32, {sizes.tokens}}},
                 {"targets", {DType::kI32, {sizes.tokens}}}}),
        sizes_(sizes) {}
  int64_t samples() const override { return 4 * sizes_.rows; }
  uint64_t fingerprint() const override { return 0xca9710; }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    const RandomStream stream(random_key(3, "captions"), static_cast<uint64_t>(sample));
    const auto image = batch.row<float>("image", row);
    for (size_t i = 0; i < image.size(); ++i) image[i] = stream.uniform(i);
    const auto tokens = batch.row<int32_t>("tokens", row);
    const auto targets = batch.row<int32_t>("targets", row);
    const auto vocabulary = static_cast<int32_t>(sizes_.vocabulary);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] =
          static_cast<int32_t>(static_cast<float>(vocabulary) * stream.uniform(image.size() + i));
      targets[i] = (tokens[i] + 1) % vocabulary;
    }
  }

 private:
  CaptionSizes sizes_;
};

/// Three convolutions to the width of the language model, and the mean over the places.
inline ValueId encoded_image(LayerContext& layers, ValueId image, const CaptionSizes& sizes) {
  ValueId x = image;
  int number = 0;
  for (const int64_t channels : {16, 32, 32})
    x = relu(layers, square_convolution(layers, x, channels, 3, 1,
                                        "vision.conv" + std::to_string(number++)));
  const ValueId sums = layers.builder.reduce_sum(x, {2, 3}, "vision.sums");
  const auto places = static_cast<double>(sizes.extent * sizes.extent);
  const ValueId means = layers.builder.mul_scalar(sums, 1.0 / places, "vision.means");
  return linear(layers, means, sizes.width, "vision.out");
}

/// Products of the width, with residuals.
inline ValueId feed_forwards(LayerContext& layers, ValueId x, int64_t width) {
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = "language.ffn" + std::to_string(layer);
    const ValueId up = relu(layers, linear(layers, x, 4 * width, name + ".up"));
    x = layers.builder.add(x, linear(layers, up, width, name + ".down"), name + ".residual");
  }
  return x;
}

inline void write_captions(Forward& forward, const CaptionSizes& sizes) {
  Builder& b = forward.builder();
  LayerContext layers = forward.layers();
  const ValueId image = forward.input("image", {DType::kF32, {3, sizes.extent, sizes.extent}}),
                tokens = forward.input("tokens", {DType::kI32, {sizes.tokens}});
  const ValueId seen = encoded_image(layers, image, sizes);
  const ValueId read = embedding(layers, tokens, sizes.vocabulary, sizes.width, "language.tokens");
  const ValueId both = b.add(
      read, b.broadcast(seen, {forward.rows(), sizes.tokens, sizes.width}, {0, 2}, "language.seen"),
      "language.both");
  const ValueId logits =
      linear(layers, feed_forwards(layers, both, sizes.width), sizes.vocabulary, "language.head");
  forward.output("logits", logits);
  if (!forward.has_loss()) return;
  const CrossEntropy entropy = cross_entropy(
      layers, logits, forward.input("targets", {DType::kI32, {sizes.tokens}}), "loss");
  forward.output("loss", entropy.loss);
  forward.output("count", entropy.count);
}

inline Network captions_network(const CaptionSizes& sizes) {
  return {.name = "the network of captions",
          .forward = [sizes](Forward& forward) { write_captions(forward, sizes); },
          .count = "count",
          .targets = "targets"};
}

}  // namespace tessera
