// The keys of [train], [optimizer] and [checkpoint].
#pragma once

#include <vector>

#include "base/files/setting_keys.h"
#include "ir/autodiff/optimizer.h"
#include "training/config/internal/train_config.h"

namespace tessera {

/// In the order of the reference.
const std::vector<SettingKey<TrainConfig>>& train_keys();
const std::vector<SettingKey<OptimizerConfig>>& optimizer_keys();
const std::vector<SettingKey<CheckpointConfig>>& checkpoint_keys();

}  // namespace tessera
