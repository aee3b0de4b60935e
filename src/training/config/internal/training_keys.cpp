#include "training/config/internal/training_keys.h"

namespace tessera {
namespace {

constexpr double kMany = int64_t{1} << 40;

constexpr KeyAlias kDtypeAliases[] = {
    {"fp32", "f32"}, {"float32", "f32"},  {"fp16", "f16"},      {"float16", "f16"},
    {"half", "f16"}, {"16-mixed", "f16"}, {"bfloat16", "bf16"}, {"bf16-mixed", "bf16"}};
const std::vector<DType> kPrecisions = {DType::kF32, DType::kBF16, DType::kF16};
const std::vector<std::string> kPrecisionWords = {"f32", "bf16", "f16"};

bool has_batch_per_rank(const TrainConfig& train) {  // when no plan has resolved it
  return train.batch_per_rank != 0;
}

bool scales_loss(const TrainConfig& train) {
  return train.precision.scales_loss();
}

// Adam divides by 1 - beta^step, and by the root of a second moment plus epsilon. Both are f32, in
// which they must not become 0.
constexpr double kMaxBeta = 0.9999999;
constexpr double kMinEpsilon = 1e-30;
constexpr double kMuonMomentum = 0.95;

bool is_muon(const OptimizerConfig& optimizer) {
  return optimizer.kind == OptimizerKind::kMuon;
}

bool has_momentum(const OptimizerConfig& optimizer) {
  return optimizer.kind == OptimizerKind::kMomentum || is_muon(optimizer);
}

bool has_moments(const OptimizerConfig& optimizer) {
  return optimizer.kind != OptimizerKind::kSgd && optimizer.kind != OptimizerKind::kMomentum;
}

/// The kind, which comes first, decides the default of the momentum.
SettingKey<OptimizerConfig>::Word optimizer_kind() {
  auto word = word_for<OptimizerConfig, OptimizerKind>(
      &OptimizerConfig::kind, {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam,
                               OptimizerKind::kAdamW, OptimizerKind::kLamb, OptimizerKind::kMuon});
  return {word.get, [set = word.set](OptimizerConfig& optimizer, const std::string& kind) {
            set(optimizer, kind);
            if (is_muon(optimizer)) optimizer.momentum = kMuonMomentum;
          }};
}

}  // namespace

const std::vector<SettingKey<TrainConfig>>& train_keys() {
  static const std::vector<SettingKey<TrainConfig>> kKeys = {
      {{"batch", "Rows of a step, over all ranks", "64"},
       &TrainConfig::batch,
       1,
       1 << 24,
       {},
       {},
       [](const TrainConfig& train) { return train.batch_per_rank == 0; }},
      {{"batch_per_rank", "Rows of each data-parallel rank, in place of `batch`", "8"},
       &TrainConfig::batch_per_rank,
       1,
       1 << 24,
       {},
       {},
       has_batch_per_rank},
      {{"scale_learning_rate",
        "Does the learning rate grow with the data-parallel ranks of `batch_per_rank`?",
        "\"linear\""},
       word_for<TrainConfig, RateScaling>(&TrainConfig::scale_learning_rate,
                                          {RateScaling::kNone, RateScaling::kLinear}),
       0,
       0,
       {"none", "linear"},
       {},
       has_batch_per_rank},
      {{"steps", "Steps of the whole run", "1000"}, &TrainConfig::steps, 0, kMany},
      {{"seed", "Seed of initial values, of dropout and of the order of samples", "7"},
       &TrainConfig::seed,
       0,
       kMany},
      {{"precision",
        "Element type of products and of what is between them ([mixed "
        "precision](training.md#mixed-precision))",
        "\"bf16\""},
       word_for<TrainConfig, DType>(
           [](TrainConfig& train) -> auto& { return train.precision.dtype; }, kPrecisions),
       0,
       0,
       kPrecisionWords,
       kDtypeAliases},
      {{"gradient_precision",
        "Element type in which ranks send gradients of parameters that products read: `f32`, or "
        "`precision`",
        "\"bf16\""},
       word_for<TrainConfig, DType>(
           [](TrainConfig& train) -> auto& { return train.precision.gradients; }, kPrecisions),
       0,
       0,
       kPrecisionWords,
       kDtypeAliases},
      {{"loss_scale", "Of `f16`: factor of the loss in the first step, a power of two", "1024"},
       [](TrainConfig& train) -> auto& { return train.precision.scale.initial; },
       kMinLossScale,
       kLargestLossScale,
       {},
       {},
       scales_loss},
      {{"loss_scale_steps", "Of `f16`: steps without an overflow after which the factor is doubled",
        "500"},
       [](TrainConfig& train) -> auto& { return train.precision.scale.steps_to_double; },
       1,
       1 << 24,
       {},
       {},
       scales_loss},
      {{"reduction",
        "Sums between processes in the order of ranks, with the bits of one process, or in any",
        "\"fast\""},
       word_for<TrainConfig, Reduction>(&TrainConfig::reduction,
                                        {Reduction::kOrdered, Reduction::kFast}),
       0,
       0,
       {"ordered", "fast"}},
      {{"evaluate_every", "Steps between evaluations; 0: only at the end", "100"},
       &TrainConfig::evaluate_every,
       0,
       kMany},
      {{"evaluate_batches", "Batches of an evaluation, at most; 0: all held-out data", "50"},
       &TrainConfig::evaluate_batches,
       0,
       kMany},
      {{"patience",
        "Evaluations without a better held-out loss after which the run ends; 0: it does not", "5"},
       &TrainConfig::patience,
       0,
       kMany},
      {{"min_improvement", "By how much a held-out loss is better", "0.001"},
       &TrainConfig::min_improvement,
       0,
       1e9},
  };
  return kKeys;
}

const std::vector<SettingKey<OptimizerConfig>>& optimizer_keys() {
  static const std::vector<SettingKey<OptimizerConfig>> kKeys = {
      {{"kind", "Rule of the updates", "\"sgd\""},
       optimizer_kind(),
       0,
       0,
       {"sgd", "momentum", "adam", "adamw", "lamb", "muon"}},
      {{"momentum", "Of `momentum` and `muon` (0.95): share of the last update that is kept",
        "0.8"},
       &OptimizerConfig::momentum,
       0,
       1,
       {},
       {},
       has_momentum},
      {{"adam", "Of `muon`: parameters that it updates as `adamw` does", "[\"head.*\"]"},
       &OptimizerConfig::adam,
       0,
       0,
       {},
       {},
       [](const OptimizerConfig& optimizer) {
         return is_muon(optimizer) && !optimizer.adam.empty();
       }},
      {{"frozen", "Parameters that keep their values; they have no gradient and no state",
        "[\"tokens.*\"]"},
       &OptimizerConfig::frozen,
       0,
       0,
       {},
       {},
       [](const OptimizerConfig& optimizer) { return !optimizer.frozen.empty(); }},
      {{"beta1", "Of `adam`, `adamw`, `lamb`, `muon`: decay of the mean of gradients", "0.85"},
       &OptimizerConfig::beta1,
       0,
       kMaxBeta,
       {},
       {},
       has_moments},
      {{"beta2", "Of `adam`, `adamw`, `lamb`, `muon`: decay of the mean of their squares", "0.95"},
       &OptimizerConfig::beta2,
       0,
       kMaxBeta,
       {},
       {},
       has_moments},
      {{"epsilon", "Of `adam`, `adamw`, `lamb`, `muon`: added to the divisor", "1e-6"},
       &OptimizerConfig::epsilon,
       kMinEpsilon,
       1,
       {},
       {},
       has_moments},
      {{"weight_decay",
        "Decay of weights; decoupled from the gradient except for `sgd`, `momentum`, `adam`",
        "0.1"},
       &OptimizerConfig::weight_decay,
       0,
       10},
      {{"clip_norm", "Greatest norm of all gradients together; 0: they are not clipped", "1.0"},
       &OptimizerConfig::clip_norm,
       0,
       1e9},
      {{"learning_rate", "Learning rate after the warm-up", "3e-4"},
       [](OptimizerConfig& optimizer) -> auto& { return optimizer.schedule.peak; },
       0,
       1e3},
      {{"schedule", "How the learning rate falls until the last step", "\"cosine\""},
       word_for<OptimizerConfig, ScheduleKind>(
           [](OptimizerConfig& optimizer) -> auto& { return optimizer.schedule.kind; },
           {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear}),
       0,
       0,
       {"constant", "cosine", "linear"}},
      {{"warmup", "Steps in which the learning rate rises", "100"},
       [](OptimizerConfig& optimizer) -> auto& { return optimizer.schedule.warmup; },
       0,
       kMany},
      {{"warmup_start", "Share of the learning rate with which the warm-up begins", "0.1"},
       [](OptimizerConfig& optimizer) -> auto& { return optimizer.schedule.warmup_start; },
       0,
       1},
      {{"final", "Share of the learning rate at the last step", "0.1"},
       [](OptimizerConfig& optimizer) -> auto& { return optimizer.schedule.final; },
       0,
       1},
  };
  return kKeys;
}

const std::vector<SettingKey<CheckpointConfig>>& checkpoint_keys() {
  static const std::vector<SettingKey<CheckpointConfig>> kKeys = {
      {{"every", "Steps between checkpoints; 0: only at the end", "500"},
       &CheckpointConfig::every,
       0,
       kMany},
      {{"keep_last", "Checkpoints that are kept; 0: all", "1"},
       &CheckpointConfig::keep_last,
       0,
       1 << 20},
      {{"keep_best",
        "Is the one with the best held-out loss kept, too? It needs `train.evaluate_every`",
        "true"},
       &CheckpointConfig::keep_best},
  };
  return kKeys;
}

}  // namespace tessera
