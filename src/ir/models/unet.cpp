// Predicts a class for each pixel: convolutions down to small images of many channels, and up again
// with the results at each size.
//   source  Ronneberger et al., arXiv 1505.04597; with padding, so that the extents stay, batch
//           norm after each convolution, and nearest resize with a convolution instead of the
//           transposed convolution (Odena et al., Distill 2016)
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/models/image_blocks.h"
#include "ir/models/internal/families.h"
#include "ir/models/internal/norms.h"
#include "ir/ops/spatial.h"

namespace tessera {
namespace {

/// Two convolutions of 3 x 3, each with its norm.
ValueId twice(LayerContext& context, ValueId x, int64_t channels, const std::string& name) {
  const auto scope = context.builder.scope(name);
  for (const std::string number : {"1", "2"}) {
    x = batch_norm(context, square_convolution(context, x, channels, 3, 1, "conv" + number),
                   "bn" + number);
    const auto inner = context.builder.scope("relu" + number);
    x = relu(context, x);
  }
  return x;
}

ValueId up(LayerContext& context, ValueId x, ValueId seen, int64_t channels,
           const std::string& name) {
  Builder& builder = context.builder;
  const auto scope = builder.scope(name);
  const Shape shape = builder.shape(seen);
  const ValueId large =
      resize(builder, x, {shape[2], shape[3]}, ResizeMode::kNearest, Corners::kHalfPixel, "resize");
  const ValueId narrow = square_convolution(context, large, channels, 3, 1, "up");
  return twice(context, builder.concat({seen, narrow}, 1, "both"), channels, "block");
}

ValueId unet_logits(LayerContext& context, ValueId images, const ModelConfig& config) {
  std::vector<ValueId> seen;
  ValueId x = images;
  int64_t channels = config.width;
  for (int64_t level = 0; level < config.layers; ++level, channels *= 2) {
    seen.push_back(twice(context, x, channels, "down." + std::to_string(level)));
    x = max_pool(context.builder, seen.back(), {2, 2}, {},
                 "down." + std::to_string(level) + ".pool");
  }
  x = twice(context, x, channels, "bottom");
  for (int64_t level = config.layers - 1; level >= 0; --level) {
    channels /= 2;
    x = up(context, x, seen[level], channels, "up." + std::to_string(level));
  }
  return linear(context, context.builder.transpose(x, {0, 2, 3, 1}, "pixels"), config.classes,
                "head");
}

void check_unet(const ModelConfig& config, const std::string& file) {
  if (config.layers <= 6) return;
  throw UserError(
      file + ": model.layers = " + std::to_string(config.layers) + " are too many levels of a unet",
      "each level halves the picture and doubles the channels", "set model.layers to 6 or less",
      ExitCode::kBadConfig);
}

}  // namespace

ModelFamily unet_family() {
  return {.name = "unet",
          .objective = Objective::kClassOfPixel,
          .keys = {},
          .has_dropout = false,
          .check = check_unet,
          .logits = unet_logits,
          .labels = [](Builder&, ValueId labels) { return labels; }};
}

}  // namespace tessera
