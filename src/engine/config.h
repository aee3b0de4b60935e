// A run's configuration: what CONFIG.toml says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "data/dataset.h"
#include "engine/plan.h"
#include "model/model.h"

namespace tessera {

struct DataConfig {
  std::vector<std::string> path;  // files and folders of text
  std::string tokens = "bytes";   // "bytes", "characters"
  int64_t max_bytes = 4 << 20;
  double held_out = 0.1;  // fraction of the text, its end
  int64_t stride = 0;     // between samples, in tokens; 0: the context
  Shuffle shuffle = Shuffle::kBeforeSplit;
  Tail tail = Tail::kDrop;
};

struct TrainConfig {
  int64_t batch = 16;  // rows of the whole step's batch, over all ranks
  int64_t steps = 100;
  uint64_t seed = 1;
  int64_t evaluate_every = 0;    // steps between evaluations of the held-out loss; 0: only at the end
  int64_t evaluate_batches = 8;  // batches of one evaluation
};

struct CheckpointConfig {
  int64_t every = 0;  // steps between checkpoints; 0: only at the end
  int keep_last = 3;  // older ones are removed; 0: none is
};

struct RunConfig {
  std::string file;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  CheckpointConfig checkpoint;
  Plan plan;  // from [parallel]; the serial plan when there is none
};

/// Reads CONFIG.toml; `sets` are overrides such as "train.steps=10", "data.path=/usr/include", read as TOML values or else as texts.
/// throws  UserError: 66 missing file; 78 malformed, unknown key with the nearest legal one, value out of range
RunConfig read_config(const std::filesystem::path& file, const std::vector<std::string>& sets = {});

/// Every setting of a run with its defaults filled in, but the plan.
Document resolved_settings(const RunConfig& config);
/// Inverse of resolved_settings, with overrides; the plan is the serial one.  throws  as read_config; `origin` is for messages
RunConfig read_settings(const Document& settings, const std::string& origin, const std::vector<std::string>& sets = {});

}  // namespace tessera
