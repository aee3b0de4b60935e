#include "ir/models/internal/families.h"

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

std::vector<ModelFamily> families() {
  return {gpt_family(),
          mlp_family(),
          llama_family(),
          two_tower_family(),
          encoder_decoder_family(),
          bert_family(),
          lstm_family(),
          gru_family(),
          image_mlp_family(),
          resnet_family(),
          unet_family(),
          decoder_family(),
          encoder_family()};
}

}  // namespace

ModelFamily family_of(std::string_view kind) {
  for (const ModelFamily& family : families())
    if (family.name == kind) return family;
  throw InternalError("there is no family of models called '" + std::string(kind) + "'");
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const ModelFamily& family : families()) names.emplace_back(family.name);
  return names;
}

}  // namespace tessera
