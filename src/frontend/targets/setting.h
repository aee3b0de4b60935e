// Settings of parallelism as other programs have them: degrees, a schedule and what is computed
// again, the same for all layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "ir/models/model.h"

namespace tessera {

/// A program that runs plans of its own form.
enum class Target { kTorchtitan, kMegatron, kFsdp };
std::string_view to_text(Target target);  // "torchtitan", "megatron", "fsdp"
std::optional<Target> find_target(std::string_view name);
std::vector<std::string> target_names();

/// What the backward computes again: nothing, attention (Megatron's and torchtitan's selective), or
/// the layers.
enum class Recomputed { kNothing, kSelective, kLayers };
std::string_view to_text(Recomputed recomputed);  // "none", "selective", "full"

struct ParallelSetting {
  int replicate = 1;  // data-parallel groups that each have all of the state
  int shard = 1;      // data-parallel ranks that divide it, by `zero`
  int context = 1, tensor = 1, pipeline = 1;
  bool sequence_parallel = false;
  int zero = 0;    // 1: optimizer state; 2: gradients, too; 3: parameters, too
  int chunks = 1;  // stages of each pipeline rank; above 1 the schedule is interleaved 1F1B
  bool is_gpipe = false;
  /// Layers of each stage, in order; empty: as even as they can be.
  std::vector<int64_t> stage_layers = {};
  Recomputed recomputed = Recomputed::kNothing;
  int64_t micro_batch = 1;   // rows
  int64_t global_batch = 1;  // rows

  int data() const { return replicate * shard; }
  int ranks() const { return data() * context * tensor * pipeline; }
  int stages() const { return pipeline * chunks; }
  /// Of a rank, in a step. 0 where the rows do not divide.
  int64_t micro_batches() const;
  bool operator==(const ParallelSetting&) const = default;
};

/// "dp=2,fsdp=8,tp=8,pp=4,...": the preset that is the same plan (compiler/plan/preset.h).
std::string preset_text(const ParallelSetting& setting);

/// The sizes of a transformer that rules read.
struct TransformerSizes {
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head = 0, ffn = 0;
  int64_t vocabulary = 0, context = 0;
  bool tied = false;
  bool is_gated = true;
};
/// nullopt: the model is no transformer of one kind of layers.
std::optional<TransformerSizes> transformer_sizes(const ModelConfig& model);

/// The layers of `stages` stages, as even as they can be: the first and the last stage, which have
/// the embedding and the logits, have fewer.
std::vector<int64_t> even_layers(int64_t layers, int stages);
/// setting.stage_layers, or even_layers.
std::vector<int64_t> layers_of_stages(const ParallelSetting& setting, int64_t layers);

/// A setting with its price in closed form.
struct PricedSetting {
  ParallelSetting setting;
  Seconds step{0};
  Bytes memory{0};  // of the fullest rank, without what libraries take
};

/// What the flags say of the model and of the batch, before the model is known.
struct CurrentRun {
  std::optional<int64_t> rows = {};     // of the batch; absent: one micro-batch a rank
  std::optional<int64_t> context = {};  // tokens of a row
};

/// The text of --current: that of the file of this name, if there is one, else the text itself.
struct CurrentText {
  std::string text;
  std::string file;  // "": the text was given; else its ending says the form
};
struct CurrentSetting {
  ParallelSetting setting;
  /// What was assumed, and flags with which the setting is not described, for people.
  std::vector<std::string> notes = {};
};

}  // namespace tessera
