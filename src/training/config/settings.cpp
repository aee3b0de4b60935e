// The settings of a run as a document.
#include "training/config/config.h"
#include "training/config/internal/training_keys.h"

namespace tessera {
namespace {

template <typename Config>
Document settings_of(const std::vector<SettingKey<Config>>& keys, const Config& config) {
  Document table;
  for (const SettingKey<Config>& key : keys) write_key(key, config, table);
  return table;
}

}  // namespace

TrainingSettings training_settings(const RunConfig& config) {
  TrainingSettings settings{.train = config.train,
                            .optimizer = config.optimizer,
                            .checkpoint = config.checkpoint,
                            .order = {config.data.shuffle, config.data.tail}};
  settings.source["model"] = settings_of(config.model);
  settings.source["data"] = settings_of(config.data, config.model.context);
  return settings;
}

Document resolved_settings(const TrainingSettings& settings) {
  Document document = settings.source;
  document["train"] = settings_of(train_keys(), settings.train);
  document["optimizer"] = settings_of(optimizer_keys(), settings.optimizer);
  document["checkpoint"] = settings_of(checkpoint_keys(), settings.checkpoint);
  return document;
}

Document resolved_settings(const RunConfig& config) {
  return resolved_settings(training_settings(config));
}

}  // namespace tessera
