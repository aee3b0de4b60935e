// The settings of a run as a document.
#include "training/config/config.h"

namespace tessera {
namespace {

Document train_settings(const TrainConfig& train) {
  Document table;
  if (train.batch_per_rank != 0) {  // when no plan has resolved it
    table["batch_per_rank"] = train.batch_per_rank;
    table["scale_learning_rate"] = std::string(to_text(train.scale_learning_rate));
  } else {
    table["batch"] = train.batch;
  }
  table["steps"] = train.steps;
  table["seed"] = static_cast<int64_t>(train.seed);
  table["precision"] = std::string(to_text(train.precision.dtype));
  table["gradient_precision"] = std::string(to_text(train.precision.gradients));
  if (train.precision.scales_loss()) {
    table["loss_scale"] = train.precision.scale.initial;
    table["loss_scale_steps"] = train.precision.scale.steps_to_double;
  }
  table["reduction"] = std::string(to_text(train.reduction));
  table["evaluate_every"] = train.evaluate_every;
  table["evaluate_batches"] = train.evaluate_batches;
  table["patience"] = train.patience;
  table["min_improvement"] = train.min_improvement;
  return table;
}

Document list_of(const std::vector<std::string>& texts) {
  return Document::List(texts.begin(), texts.end());
}

Document optimizer_settings(const OptimizerConfig& optimizer) {
  const bool is_muon = optimizer.kind == OptimizerKind::kMuon;
  const bool has_momentum = optimizer.kind == OptimizerKind::kMomentum || is_muon;
  Document table;
  table["kind"] = std::string(to_text(optimizer.kind));
  if (has_momentum) table["momentum"] = optimizer.momentum;
  if (is_muon && !optimizer.adam.empty()) table["adam"] = list_of(optimizer.adam);
  if (!optimizer.frozen.empty()) table["frozen"] = list_of(optimizer.frozen);
  if (optimizer.kind != OptimizerKind::kSgd && optimizer.kind != OptimizerKind::kMomentum) {
    table["beta1"] = optimizer.beta1;
    table["beta2"] = optimizer.beta2;
    table["epsilon"] = optimizer.epsilon;
  }
  table["weight_decay"] = optimizer.weight_decay;
  table["clip_norm"] = optimizer.clip_norm;
  table["learning_rate"] = optimizer.schedule.peak;
  table["schedule"] = std::string(to_text(optimizer.schedule.kind));
  table["warmup"] = optimizer.schedule.warmup;
  table["warmup_start"] = optimizer.schedule.warmup_start;
  table["final"] = optimizer.schedule.final;
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
  document["train"] = train_settings(settings.train);
  document["optimizer"] = optimizer_settings(settings.optimizer);
  document["checkpoint"] = Document::Table{{"every", settings.checkpoint.every},
                                           {"keep_last", settings.checkpoint.keep_last},
                                           {"keep_best", settings.checkpoint.keep_best}};
  return document;
}

Document resolved_settings(const RunConfig& config) {
  return resolved_settings(training_settings(config));
}

}  // namespace tessera
