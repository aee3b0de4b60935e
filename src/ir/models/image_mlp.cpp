// The smallest classifier of images: hidden layers on the pixels.
#include "ir/models/internal/blocks.h"
#include "ir/models/internal/families.h"

namespace tessera {
namespace {

ValueId image_mlp_logits(LayerContext& context, ValueId images, const ModelConfig& config) {
  Builder& builder = context.builder;
  const Shape shape = builder.shape(images);
  ValueId x = builder.reshape(images, {shape[0], shape[1] * shape[2] * shape[3]}, "images.pixels");
  for (int64_t layer = 0; layer < config.layers; ++layer)
    x = hidden_layer(context, x, config, "hidden." + std::to_string(layer));
  return linear(context, x, config.classes, "head");
}

}  // namespace

ModelFamily image_mlp_family() {
  return {.name = "image_mlp",
          .objective = Objective::kClassOfImage,
          .keys = {},
          .check = check_nothing,
          .logits = image_mlp_logits,
          .labels = all_labels};
}

}  // namespace tessera
