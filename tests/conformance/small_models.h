// Small networks with their data, one of each family, and two that are no family. Test code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "training/engine/engine.h"

namespace tessera::conformance {

/// What is trained: everything but the plan.
struct SmallModel {
  Network network;
  TrainingSettings settings;
  std::shared_ptr<const RunData> data;
};

/// "gpt", "gpt_tied", "llama", "bert", "mlp", "lstm", "gru", "two_tower", "encoder_decoder",
/// "image_mlp", "resnet", "unet"; "distances" (training/engine/testing/own_network.h); "captions",
/// images beside text.
const std::vector<std::string>& small_models();

/// What may be changed of a small model.
struct ModelChanges {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  DType precision = DType::kF32;
  DType gradients = DType::kF32;
  /// "all" parameters; "frozen": without the embedding and the first block; "lora": the adapters of
  /// the attention. The last two are for models with blocks of attention.
  std::string trained = "all";
};

/// A batch has eight rows. Data is made once for all tests.
SmallModel small_model(const std::string& name, const ModelChanges& changes = {});

}  // namespace tessera::conformance
