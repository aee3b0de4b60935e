// A preset: degrees of parallelism in place of meshes and marks, "dp=2,tp=2".
// planner/presets/presets.h makes a plan of it for a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/document.h"
#include "compiler/plan/internal/read_meshes.h"
#include "compiler/plan/plan.h"

namespace tessera {

/// The axes of the meshes of presets, outermost first. Neighbours on the last one exchange most.
inline constexpr std::string_view kDataAxis = "dp";
/// Divides the batch as kDataAxis does, and is the axis of zero: with kDataAxis outside of it,
/// state is divided inside of groups and the same in all of them, as in PyTorch's HSDP.
inline constexpr std::string_view kShardedDataAxis = "fsdp";
inline constexpr std::string_view kSpaceAxis = "sp";
inline constexpr std::string_view kTensorAxis = "tp";
/// The stages of a pipeline, which are meshes, not an axis.
inline constexpr std::string_view kPipelineKey = "pp";

/// "equal", which is what the stages of a preset are, says it of all plans that are searched.
inline constexpr std::string_view kStagesKey = "stages";
/// Names of ops or scopes after which the stages end, all but the last one: ["blocks.5"], or
/// "blocks.1+blocks.5" in a text.
inline constexpr std::string_view kBoundariesKey = "boundaries";

/// The repeated layers of each stage: "equal", [5, 6, 6, 5], or "5+6+6+5" in a text.
inline constexpr std::string_view kStageLayersKey = "stage_layers";
/// Stages of each position of the pipeline, with schedule interleaved.
inline constexpr std::string_view kChunksKey = "chunks";
/// Do the ranks of kTensorAxis divide positions where they do not divide weights?
inline constexpr std::string_view kSequenceKey = "sequence_parallel";
/// With zero: "divided" or "whole" master weights.
inline constexpr std::string_view kMasterWeightsKey = "master_weights";

/// Which devices certain ops run on: ["blocks.0:gpu"], or "blocks.0:v100-16g+head:gpu" in a text.
inline constexpr std::string_view kStageHardwareKey = "stage_hardware";

/// The stages with ops of this name, or of this scope, run on devices of this kind or type.
struct StageHardware {
  std::string name;      // "blocks.0" is "blocks.0.*", too
  std::string hardware;  // "cpu", "gpu", "npu", or the name of a type of device

  bool operator==(const StageHardware&) const = default;
};
std::string to_text(const std::vector<StageHardware>& list);  // "blocks.0:v100-16g+head:gpu"

/// What each rank keeps of the f32 parameters of a network whose ops read them through casts to 16
/// bits, where the state of the optimizer is divided.
enum class MasterWeights { kWhole, kDivided };

struct PresetAxis {
  std::string_view name;        // one of the above
  std::optional<int64_t> size;  // nullopt: kRest

  bool operator==(const PresetAxis&) const = default;
};

struct Preset {
  std::string text;              // "dp=2,tp=2": the name of its plans
  std::vector<PresetAxis> axes;  // outermost first; at most one is kRest
  int64_t stages = 1;
  /// What the ranks of kShardedDataAxis, or without it of kDataAxis, divide among themselves
  /// instead of each keeping all of it, as in ZeRO (Rajbhandari et al., SC 2020): 1 the state of
  /// the optimizer; 2 the sums of gradients over micro-batches, too, of which each is then reduced
  /// and scattered; 3 the parameters, too.
  int zero = 0;
  MasterWeights master_weights = MasterWeights::kDivided;  // with zero
  /// Are the sums that kTensorAxis makes divided by positions, as in Megatron's sequence
  /// parallelism (Korthikanti et al., 2205.05198)? They are reduced and scattered in place of
  /// reduced.
  bool sequence_parallel = false;
  int64_t chunks = 0;  // stages of each position of the pipeline; 0: what the schedule has
  std::vector<std::string> boundaries = {};  // of stages, in program order; empty: even stages
  std::vector<int64_t> stage_layers = {};    // of each stage; empty: even stages
  bool has_equal_layers = false;             // have stages the same numbers of layers?
  std::vector<StageHardware> hardware = {};  // NamedMesh::hardware of some stages
  /// Are micro-batches chosen with the plan? Then decisions.micro_batches is what is aimed at.
  bool chooses_micro_batches = false;
  /// All other decisions, without meshes; its marks are added to those of the preset.
  Plan decisions;
  /// Those of them that are one value, as text: "micro_batches=8,schedule=zb-h1".
  /// The keys of stages, too.
  std::string decisions_text = {};
};

/// Is it a preset, and no file? Presets have an equals sign, and files exist.
bool is_preset(std::string_view text);

/// The preset that words without an equals sign mean, "dp=2,tp=2" for "dp2,tp2" and "dp=4,zero=3"
/// for "fsdp", with the degree 4 where there is none. "" when a word is no degree, in our words or
/// those of other systems.
std::string preset_of_words(std::string_view text);

/// The key of Preset::zero.
inline constexpr std::string_view kZeroKey = "zero";

/// dp, fsdp, sp, tp and pp.
std::span<const std::string_view> degree_keys();

/// Reads "pp=4,tp=2,micro_batches=8,schedule=zb-h1": axes, and other keys of plans.
///   throws  UserError (78) for a degree below 1, two axes of the rest, a key twice, and as
///           parse_plan, for unknown keys and values
Preset parse_preset(std::string_view text);

/// Has `document`, a table with the keys of a plan, keys that only presets have? Then it is one.
bool has_degrees(const Document& document);
/// Reads such a table: dp = 2, schedule = "zb-h1".
///   keys    receives the degrees that are asked for; the other keys are those of parse_plan
///   throws  as above, and UserError (78) for a table that has meshes or shardings, too
Preset parse_preset(const Document& document, const std::string& origin,
                    std::vector<ReadKey>* keys = nullptr);

}  // namespace tessera
