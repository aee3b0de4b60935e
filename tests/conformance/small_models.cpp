#include "small_models.h"

#include <filesystem>
#include <map>

#include "../captions_network.h"
#include "base/error.h"
#include "ir/models/family.h"
#include "training/engine/testing/own_network.h"
#include "training/engine/testing/runs.h"

namespace tessera::conformance {
namespace {

using DataPtr = std::shared_ptr<const RunData>;

/// The configuration of the name in configs/, with sizes that make it small.
RunConfig image_config(const std::string& name) {
  const std::map<std::string, std::pair<std::string, std::vector<std::string>>> small{
      {"image_mlp", {"image_mlp", {"model.width=24", "data.size=12"}}},
      {"resnet", {"resnet20", {"data.size=12"}}},
      {"unet", {"unet", {"model.width=6", "data.size=12"}}}};
  auto [file, sets] = small.at(name);
  sets.insert(sets.end(), {"data.samples=64", "train.batch=8", "data.held_out=0.25"});
  RunConfig config =
      read_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "configs" / (file + ".toml"), sets);
  set_sizes(config.model, config.data);
  return config;
}

bool is_of_images(const std::string& name) {
  return name == "image_mlp" || name == "resnet" || name == "unet";
}

/// The data of a configuration of images, made once.
DataPtr image_data(const std::string& name) {
  static std::map<std::string, DataPtr> known;
  DataPtr& data = known[name];
  if (!data)
    data = std::make_shared<const RunData>(load_data(image_config(name).data, {.context = 0}));
  return data;
}

SmallModel family_model(const std::string& name, const std::string& trained) {
  RunConfig config = is_of_images(name) ? image_config(name) : tiny_run(name);
  if (trained == "frozen") config.optimizer.frozen = {"tokens.*", "blocks.0.*"};
  if (trained == "lora") config.model.lora = {.rank = 4, .targets = {"*.attn.*.weight"}};
  static const DataPtr text = small_text();
  return {network_of(config.model), training_settings(config),
          is_of_images(name) ? image_data(name) : text};
}

SmallModel captions() {
  const CaptionSizes sizes{.rows = 8, .extent = 6, .tokens = 4, .width = 16, .vocabulary = 16};
  static const auto images = std::make_shared<const CaptionedImages>(sizes);
  TrainingSettings settings;
  settings.train = {.batch = sizes.rows, .steps = 4, .seed = 3};
  return {captions_network(sizes), settings,
          std::make_shared<const RunData>(
              RunData{.train = images, .held_out = images, .unit = "caption"})};
}

SmallModel unchanged(const std::string& name, const std::string& trained) {
  if (name == "captions") return captions();
  if (name == "distances") {
    SmallModel model{distance_network(), distance_settings(), pairs_of_points()};
    model.settings.train.batch = 8;  // four micro-batches accumulated twice
    return model;
  }
  return family_model(name, trained);
}

}  // namespace

const std::vector<std::string>& small_models() {
  static const std::vector<std::string> kNames = {
      "gpt",       "gpt_tied",        "llama",     "bert",   "mlp",  "lstm",      "gru",
      "two_tower", "encoder_decoder", "image_mlp", "resnet", "unet", "distances", "captions"};
  return kNames;
}

SmallModel small_model(const std::string& name, const ModelChanges& changes) {
  SmallModel model = unchanged(name, changes.trained);
  model.settings.optimizer.kind = changes.optimizer;
  Precision& precision = model.settings.train.precision;
  precision.dtype = changes.precision;
  precision.gradients = changes.gradients;
  precision.scale.initial = 256;  // no gradient of these models overflows with it
  return model;
}

}  // namespace tessera::conformance
