// The settings [train] and [checkpoint] of a run.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/tensor/reduction.h"
#include "ir/precision/precision.h"

namespace tessera {

enum class RateScaling { kNone, kLinear };
constexpr std::string_view to_text(RateScaling scaling) {
  return scaling == RateScaling::kLinear ? "linear" : "none";
}

struct TrainConfig {
  int64_t batch = 16;  // rows of the whole step's batch, over all ranks
  /// Rows of each data-parallel rank, in place of `batch`, when > 0:
  /// training/engine/data/batch_rule.h.
  int64_t batch_per_rank = 0;
  RateScaling scale_learning_rate = RateScaling::kNone;
  int64_t steps = 100;
  uint64_t seed = 1;
  Precision precision = {};
  Reduction reduction = Reduction::kOrdered;  // between processes: "ordered" or "fast"
  int64_t evaluate_every = 0;  // steps between evaluations of the held-out loss; 0: only at the end
  int64_t evaluate_batches = 8;  // batches of one evaluation; 0: all held-out data
  /// Evaluations without a better held-out loss after which training ends; 0: it does not.
  int64_t patience = 0;
  double min_improvement = 0;  // by which a held-out loss is better
};

struct CheckpointConfig {
  int64_t every = 0;  // steps between checkpoints; 0: only at the end
  int keep_last = 3;  // older ones are removed; 0: all are kept
  /// Is the checkpoint with the best held-out loss kept beside them?
  bool keep_best = false;
};

}  // namespace tessera
