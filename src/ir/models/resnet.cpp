// Residual networks of images. The stride of a bottleneck is in its 3 x 3 convolution, and a
// shortcut that changes its shape is a 1 x 1 convolution at every depth, as is usual since then;
// the paper pads the shortcuts of the small forms with zeros.
//   source  He et al., arXiv 1512.03385: depths 18, 34 and 50 of section 4.1, 20 and 56 of section
//           4.2
#include <array>
#include <string>

#include "base/error.h"
#include "ir/models/image_blocks.h"
#include "ir/models/internal/families.h"
#include "ir/models/internal/norms.h"
#include "ir/ops/spatial.h"

namespace tessera {
namespace {

/// A form of the network.
struct Form {
  int64_t depth;
  bool of_small_images;  // a stem of 3 x 3 and three stages; else a stem of 7 x 7, a pool, and four
  bool bottleneck;       // three convolutions per block, the last four times as wide
  std::array<int64_t, 4> blocks;  // of each stage; 0: no such stage
};

constexpr std::array<Form, 5> kForms = {{{18, false, false, {2, 2, 2, 2}},
                                         {20, true, false, {3, 3, 3, 0}},
                                         {34, false, false, {3, 4, 6, 3}},
                                         {50, false, true, {3, 4, 6, 3}},
                                         {56, true, false, {9, 9, 9, 0}}}};

const Form* form_of(int64_t depth) {
  for (const Form& form : kForms)
    if (form.depth == depth) return &form;
  return nullptr;
}

void check_resnet(const ModelConfig& config, const std::string& file) {
  if (form_of(config.depth)) return;
  throw UserError(
      file + ": model.depth = " + std::to_string(config.depth) + " is no depth of a resnet",
      "18, 34 and 50 are for images of some hundred pixels a side, 20 and 56 for those of some ten",
      "set model.depth to one of 18, 20, 34, 50, 56", ExitCode::kBadConfig);
}

ValueId normed(LayerContext& context, ValueId x, int64_t number) {
  return batch_norm(context, x, "bn" + std::to_string(number));
}

ValueId convolved(LayerContext& context, ValueId x, int64_t out, int64_t window, int64_t stride,
                  int64_t number) {
  return normed(
      context, square_convolution(context, x, out, window, stride, "conv" + std::to_string(number)),
      number);
}

ValueId rectified(LayerContext& context, ValueId x, int64_t number) {
  const auto scope = context.builder.scope("relu" + std::to_string(number));
  return relu(context, x);
}

/// The value that is added to the branch: x, or a 1 x 1 convolution of x when the shape differs.
ValueId shortcut(LayerContext& context, ValueId x, int64_t out, int64_t stride) {
  if (context.builder.shape(x)[1] == out && stride == 1) return x;
  const auto scope = context.builder.scope("downsample");
  return batch_norm(context, square_convolution(context, x, out, 1, stride, "0"), "1");
}

ValueId block(LayerContext& context, ValueId x, const Form& form, int64_t width, int64_t stride) {
  const int64_t out = form.bottleneck ? 4 * width : width;
  ValueId branch =
      convolved(context, x, width, form.bottleneck ? 1 : 3, form.bottleneck ? 1 : stride, 1);
  branch = convolved(context, rectified(context, branch, 1), form.bottleneck ? width : out, 3,
                     form.bottleneck ? stride : 1, 2);
  if (form.bottleneck) branch = convolved(context, rectified(context, branch, 2), out, 1, 1, 3);
  const ValueId kept = shortcut(context, x, out, stride);
  return rectified(context, context.builder.add(branch, kept, "residual"), 0);
}

ValueId stem(LayerContext& context, ValueId images, const Form& form) {
  if (form.of_small_images) return rectified(context, convolved(context, images, 16, 3, 1, 1), 1);
  const ValueId x = rectified(context, convolved(context, images, 64, 7, 2, 1), 1);
  return max_pool(context.builder, x, {3, 3}, {.stride = {2, 2}, .low = {1, 1}, .high = {1, 1}},
                  "maxpool");
}

ValueId resnet_logits(LayerContext& context, ValueId images, const ModelConfig& config) {
  const Form* form = form_of(config.depth);
  ensure(form != nullptr, "a depth of a resnet");
  ValueId x = stem(context, images, *form);
  int64_t width = form->of_small_images ? 16 : 64;
  for (size_t stage = 0; stage < form->blocks.size(); ++stage, width *= 2)
    for (int64_t i = 0; i < form->blocks[stage]; ++i) {
      const auto scope =
          context.builder.scope("layer" + std::to_string(stage + 1) + "." + std::to_string(i));
      x = block(context, x, *form, width, stage > 0 && i == 0 ? 2 : 1);
    }
  return linear(context, global_average_pool(context.builder, x, "avgpool"), config.classes, "fc");
}

}  // namespace

ModelFamily resnet_family() {
  return {.name = "resnet",
          .objective = Objective::kClassOfImage,
          .keys = {"depth"},
          .has_layers = false,
          .check = check_resnet,
          .logits = resnet_logits,
          .labels = [](Builder&, ValueId labels) { return labels; }};
}

}  // namespace tessera
