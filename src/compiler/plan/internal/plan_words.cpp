#include "compiler/plan/internal/plan_words.h"

#include <array>

#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kDividedParameters =
    "presets divide over dp with zero=1 or zero=3, as in dp=4,zero=3; in a plan, a mark of the "
    "parameters with \"placement\": \"P(\\\"dp\\\")\" and \"copies\": \"pass\" does";

constexpr std::array kAliases =
    std::to_array<KeyAlias>({{"zero", "marks", kDividedParameters},
                             {"zero_stage", "zero", kDividedParameters},
                             {"ddp", "dp"},
                             {"data_parallel", "dp"},
                             {"data_parallel_size", "dp"},
                             {"tensor_parallel", "tp"},
                             {"tensor_parallel_size", "tp"},
                             {"tensor_model_parallel_size", "tp"},
                             {"model_parallel", "tp"},
                             {"mp", "tp"},
                             {"pipeline_parallel", "pp"},
                             {"pipeline_parallel_size", "pp"},
                             {"pipeline_model_parallel_size", "pp"},
                             {"data_parallel_replicate_degree", "dp"},
                             {"data_parallel_shard_degree", "fsdp"},
                             {"fsdp_size", "fsdp"},
                             {"virtual_pipeline_model_parallel_size", "chunks"},
                             {"virtual_pipeline_stages", "chunks"},
                             {"gradient_accumulation_steps", "accumulate"},
                             {"accumulation_steps", "accumulate"},
                             {"accumulate_grad_batches", "accumulate"},
                             {"num_microbatches", "micro_batches"},
                             {"microbatches", "micro_batches"},
                             {"num_micro_batches", "micro_batches"},
                             {"bucket_cap_mb", "bucket_mib"},
                             {"pipeline_schedule", "schedule"},
                             {"recompute_granularity", "recompute"},
                             {"activation_checkpointing", "recompute"},
                             {"gradient_checkpointing", "recompute"},
                             {"remat", "recompute"},
                             {"offload_optimizer", "offload"},
                             {"optimizer_cpu_offload", "offload"},
                             {"cpu_offload", "offload"}});

constexpr std::string_view kNoRing =
    "other systems divide the positions of attention by it, with a ring of keys and values, which "
    "does not exist here; 'sp' divides the positions, too, and gathers whole keys and values";
constexpr std::string_view kUseSp = "write sp=2 in a preset if that is wanted, or remove it";
constexpr std::string_view kNoExperts = "there are no mixtures of experts, so none is divided";
constexpr std::string_view kRemove =
    "remove it; the degrees of presets are dp, fsdp, sp, tp and pp";

constexpr std::array kForeign =
    std::to_array<ForeignKey>({{"cp", kNoRing, kUseSp},
                               {"context_parallel", kNoRing, kUseSp},
                               {"context_parallel_size", kNoRing, kUseSp},
                               {"ring_attention", kNoRing, kUseSp},
                               {"ep", kNoExperts, kRemove},
                               {"expert_parallel", kNoExperts, kRemove},
                               {"expert_parallel_size", kNoExperts, kRemove},
                               {"expert_model_parallel_size", kNoExperts, kRemove}});

/// Keys that are several keys of presets. N is the value.
struct PresetWord {
  std::string_view theirs, ours;
};
constexpr std::array kPresetWords = std::to_array<PresetWord>({{"fsdp2", "fsdp=N"},
                                                               {"zero1", "dp=N,zero=1"},
                                                               {"zero2", "dp=N,zero=2"},
                                                               {"zero3", "dp=N,zero=3"},
                                                               {"zero_stage", "zero=N"}});

}  // namespace

std::span<const KeyAlias> plan_aliases() {
  return kAliases;
}

std::span<const ForeignKey> foreign_plan_keys() {
  return kForeign;
}

std::string preset_item(std::string_view key, std::string_view value) {
  for (const auto& [theirs, ours] : kPresetWords) {
    if (theirs != key) continue;
    std::string item(ours);
    return item.replace(item.find('N'), 1, value);
  }
  for (const KeyAlias& alias : kAliases)  // 'zero' is a key of presets
    if (alias.theirs == key && key != "zero")
      return std::string(alias.ours) + "=" + std::string(value);
  return "";
}

std::string preset_items(const std::vector<std::pair<std::string, std::string>>& items) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : items) {
    const std::string item = preset_item(key, value);
    parts.push_back(item.empty() ? key + "=" + value : item);
  }
  return join(parts, ",");
}

}  // namespace tessera
