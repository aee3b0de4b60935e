// The configuration of a run, from CONFIG.toml.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/document.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/preset.h"
#include "ir/autodiff/optimizer.h"
#include "ir/models/model.h"
#include "ir/precision/precision.h"
#include "training/config/internal/data_config.h"
#include "training/config/internal/train_config.h"

namespace tessera {

/// The order in which samples become batches.
struct SampleOrder {
  Shuffle shuffle = Shuffle::kBeforeSplit;
  Tail tail = Tail::kDrop;
};

/// The settings of training, whatever the network and its data are.
struct TrainingSettings {
  TrainConfig train = {};
  OptimizerConfig optimizer = {};
  CheckpointConfig checkpoint = {};
  SampleOrder order = {};
  /// The tables [model] and [data], which checkpoints store, so that the command line can make the
  /// run again; null when a program made the network.
  Document source = {};
};

struct RunConfig {
  std::string file;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  CheckpointConfig checkpoint;
};

/// A configuration file: a run and the plan of its table [parallel], which is the serial plan
/// without the table.
struct ConfigFile {
  RunConfig run;
  /// Of the table [parallel]: neither, when there is none.
  std::optional<Plan> plan = {};      // it has meshes
  std::optional<Preset> preset = {};  // it has degrees: dp = 2
};

/// Reads CONFIG.toml. `sets` are overrides such as "train.steps=10" or "data.path=/usr/include",
/// which are read as TOML values or else as texts.
///   throws  UserError: 66 for a missing file; 78 for a malformed file, an unknown key (with the
///           most similar legal one) or a value out of range
///   ranks   of the run when it is known, for mesh axes of the size "rest"
ConfigFile read_config_file(const std::filesystem::path& file,
                            const std::vector<std::string>& sets = {},
                            std::optional<int> ranks = std::nullopt);
/// The same from settings that were made of another file.
///   origin  that file, for messages
ConfigFile read_config_settings(Document settings, const std::string& origin,
                                const std::vector<std::string>& sets = {},
                                std::optional<int> ranks = std::nullopt);
/// Reads only the run.
RunConfig read_config(const std::filesystem::path& file, const std::vector<std::string>& sets = {});

/// The keys that a reader asks for in a configuration with these settings: the keys of [model] and
/// [data] depend on their kinds.
std::vector<ReadKey> keys_of(const Document& settings);

TrainingSettings training_settings(const RunConfig& config);

/// Checks settings that a program made by the rules of a configuration file, except that train.seed
/// is any number, and that patience and keep_best need no evaluate_every.
///   throws  UserError (78) that names the key of a value out of its range
void check(const TrainingSettings& settings);

/// Every setting of a run without the plan, with its defaults filled in.
Document resolved_settings(const TrainingSettings& settings);
Document resolved_settings(const RunConfig& config);
/// The inverse of resolved_settings(RunConfig), with overrides; the plan is the serial one.
/// `origin` is for messages.
///   throws  as read_config
RunConfig read_settings(const Document& settings, const std::string& origin,
                        const std::vector<std::string>& sets = {});

}  // namespace tessera
