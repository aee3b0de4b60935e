#include "frontend/targets/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::array kTargets = {Target::kTorchtitan, Target::kMegatron, Target::kFsdp};

}  // namespace

std::string_view to_text(Target target) {
  switch (target) {
    case Target::kTorchtitan: return "torchtitan";
    case Target::kMegatron: return "megatron";
    case Target::kFsdp: return "fsdp";
  }
  throw InternalError("unknown target");
}

std::optional<Target> find_target(std::string_view name) {
  for (const Target target : kTargets)
    if (to_text(target) == name) return target;
  return std::nullopt;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target target : kTargets) names.emplace_back(to_text(target));
  return names;
}

std::string_view to_text(Recomputed recomputed) {
  switch (recomputed) {
    case Recomputed::kNothing: return "none";
    case Recomputed::kSelective: return "selective";
    case Recomputed::kLayers: return "full";
  }
  throw InternalError("unknown recomputation");
}

int64_t ParallelSetting::micro_batches() const {
  const int64_t rows = micro_batch * data();
  return rows > 0 && global_batch % rows == 0 ? global_batch / rows : 0;
}

std::string preset_text(const ParallelSetting& setting) {
  std::vector<std::string> keys;
  const auto add = [&](std::string_view key, int64_t degree) {
    if (degree > 1) keys.push_back(fmt::format("{}={}", key, degree));
  };
  const bool is_sharded = setting.shard > 1 && setting.zero > 0;
  add("dp", is_sharded ? setting.replicate : setting.data());
  if (is_sharded) add("fsdp", setting.shard);
  add("sp", setting.context);
  add("tp", setting.tensor);
  add("pp", setting.pipeline);
  if (keys.empty()) keys.emplace_back("dp=1");
  if (is_sharded) keys.push_back(fmt::format("zero={}", setting.zero));
  if (setting.sequence_parallel && setting.tensor > 1) keys.emplace_back("sequence_parallel=true");
  const int64_t micro_batches = setting.micro_batches();
  if (micro_batches > 1 || setting.pipeline > 1)
    keys.push_back(fmt::format("micro_batches={}", micro_batches));
  if (setting.pipeline > 1) {
    if (setting.chunks > 1) {
      keys.emplace_back("schedule=interleaved");
      keys.push_back(fmt::format("chunks={}", setting.chunks));
    } else if (setting.is_gpipe) {
      keys.emplace_back("schedule=gpipe");
    }
    keys.push_back(setting.stage_layers.empty()
                       ? "stage_layers=equal"
                       : fmt::format("stage_layers={}", fmt::join(setting.stage_layers, "+")));
  }
  if (setting.recomputed != Recomputed::kNothing)
    keys.push_back(fmt::format("recompute={}", to_text(setting.recomputed)));
  return fmt::format("{}", fmt::join(keys, ","));
}

std::optional<TransformerSizes> transformer_sizes(const ModelConfig& model) {
  const bool has_form = model.kind == "decoder" || model.kind == "encoder";
  const bool is_gpt = model.kind == "gpt" || model.kind == "bert";
  if (!has_form && !is_gpt && model.kind != "llama") return std::nullopt;
  const ModelConfig whole = with_defaults(model);
  return TransformerSizes{.layers = whole.layers,
                          .width = whole.width,
                          .heads = whole.heads,
                          .kv_heads = whole.kv_heads,
                          .head = whole.head,
                          .ffn = is_gpt ? 4 * whole.width : whole.ffn,
                          .vocabulary = whole.vocabulary,
                          .context = whole.context,
                          .tied = whole.tied,
                          .is_gated = has_form ? whole.form.gated : !is_gpt};
}

std::vector<int64_t> even_layers(int64_t layers, int stages) {
  std::vector<int64_t> list(static_cast<size_t>(stages), layers / stages);
  // What remains goes to stages in the middle.
  const int64_t rest = layers % stages;
  const int64_t first = std::max<int64_t>(0, (stages - rest) / 2);
  for (int64_t i = 0; i < rest; ++i) ++list[static_cast<size_t>(first + i)];
  return list;
}

std::vector<int64_t> layers_of_stages(const ParallelSetting& setting, int64_t layers) {
  return setting.stage_layers.empty() ? even_layers(layers, setting.stages())
                                      : setting.stage_layers;
}

}  // namespace tessera
