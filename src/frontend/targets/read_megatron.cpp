// Megatron-LM core_v0.16.1: the arguments of pretrain_gpt.py (training/arguments.py).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "frontend/targets/internal/given_flags.h"

namespace tessera {
namespace {

/// Flags that change the run in a way that the setting does not describe.
constexpr std::array kNotDescribed = {"num_experts",
                                      "expert_model_parallel_size",
                                      "use_tp_pp_dp_mapping",
                                      "tp_comm_overlap",
                                      "cpu_offloading",
                                      "optimizer_cpu_offload",
                                      "mtp_num_layers",
                                      "fp8_format",
                                      "distribute_saved_activations",
                                      "decoder_tp_comm_overlap"};

/// The layers of each stage of a layout: "Et*3|t*4|(tt|)*2t,L".
///   requires  the grammar of PipelineParallelLayerLayout: groups do not nest
class LayoutReader {
 public:
  explicit LayoutReader(const std::string& text) : text_(text) {}

  std::vector<int64_t> layers() {
    const std::string flat = unrolled_groups();
    std::vector<int64_t> counts{0};
    for (size_t i = 0; i < flat.size(); ++i) {
      const char c = flat[i];
      if (c == ',') continue;
      if (c == '|') {
        counts.push_back(0);
        continue;
      }
      if (c != 't' && c != 'E' && c != 'L' && c != 'm')
        refuse("it has '" + std::string(1, c) + "'");
      int64_t count = 1;
      if (i + 1 < flat.size() && flat[i + 1] == '*') count = number(flat, i += 2);
      if (c == 't') counts.back() += count;
      if (counts.back() > kMaxItems || std::ssize(counts) > kMaxItems) refuse("it is too long");
    }
    return counts;
  }

 private:
  static constexpr int64_t kMaxItems = 100'000;

  [[noreturn]] void refuse(const std::string& why) const {
    refuse_config(
        fmt::format("the pipeline layout '{}' of --current is malformed", excerpt(text_, 60)), why,
        "write stages of E, t and L with | between them, such as Et*3|t*4|t*3,L");
  }

  /// Reads the digits from `at` on, and leaves `at` on the last of them.
  int64_t number(const std::string& text, size_t& at) const {
    int64_t value = 0;
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9' && value <= kMaxItems)
      value = 10 * value + (text[at++] - '0');
    if (at == begin) refuse("a number is missing after *");
    --at;
    return value;
  }

  std::string unrolled_groups() const {
    std::string flat;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] != '(') {
        flat += text_[i];
        continue;
      }
      const size_t close = text_.find(')', i);
      if (close == std::string::npos || close + 1 >= text_.size() || text_[close + 1] != '*')
        refuse("a group ( ) has no *N after it");
      const std::string group = text_.substr(i + 1, close - i - 1);
      i = close + 2;
      for (int64_t n = number(text_, i); n > 0; --n) {
        flat += group;
        if (std::ssize(flat) > kMaxItems) refuse("it is too long");
      }
    }
    return flat;
  }

  const std::string& text_;
};

void read_stages(const GivenFlags& flags, const TransformerSizes& model, ParallelSetting& setting) {
  const int64_t pipeline = setting.pipeline;
  if (const auto layout = flags.text("pipeline_model_parallel_layout")) {
    setting.stage_layers = LayoutReader(*layout).layers();
    const auto stages = std::ssize(setting.stage_layers);
    if (stages % pipeline != 0)
      refuse_config(fmt::format("the pipeline layout of --current has {} stages", stages),
                    fmt::format("they are no multiple of {} pipeline ranks", pipeline),
                    "correct the layout or --pipeline-model-parallel-size");
    setting.chunks = static_cast<int>(stages / pipeline);
  } else if (const auto chunks = flags.number("num_virtual_stages_per_pipeline_rank")) {
    setting.chunks = static_cast<int>(std::min<int64_t>(*chunks, model.layers));
  } else if (const auto layers = flags.number("num_layers_per_virtual_pipeline_stage")) {
    setting.chunks = static_cast<int>(
        std::max<int64_t>(1, model.layers / pipeline / std::max<int64_t>(*layers, 1)));
  }
  const auto first = flags.number("decoder_first_pipeline_num_layers");
  const auto last = flags.number("decoder_last_pipeline_num_layers");
  if (pipeline > 1 && (first || last) && setting.chunks == 1) {
    const int64_t ends = (first ? 1 : 0) + (last ? 1 : 0);
    const int64_t rest = model.layers - first.value_or(0) - last.value_or(0);
    const int64_t middle = pipeline > ends ? rest / (pipeline - ends) : 0;
    setting.stage_layers.assign(static_cast<size_t>(pipeline), middle);
    if (first) setting.stage_layers.front() = *first;
    if (last) setting.stage_layers.back() = *last;
  }
}

int zero_of(const GivenFlags& flags) {
  if (flags.is_set("use_torch_fsdp2"))
    return flags.is_set("torch_fsdp2_no_reshard_after_forward") ? 2 : 3;
  if (flags.is_set("use_megatron_fsdp")) {
    const std::string strategy = flags.text("data_parallel_sharding_strategy").value_or("no_shard");
    constexpr std::pair<std::string_view, int> kStrategies[] = {
        {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};
    for (const auto& [name, zero] : kStrategies)
      if (name == strategy) return zero;
    refuse_config(
        "--data-parallel-sharding-strategy of --current is '" + excerpt(strategy, 40) + "'",
        "it is no_shard, optim, optim_grads or optim_grads_params", "correct it");
  }
  return flags.is_set("use_distributed_optimizer") ? 1 : 0;
}

Recomputed recomputed_of(const GivenFlags& flags, std::vector<std::string>& notes) {
  const std::optional<std::string> granularity = flags.text("recompute_granularity");
  if (flags.is_set("recompute_activations") || granularity == "selective") {
    const std::string modules = flags.text("recompute_modules").value_or("core_attn");
    if (modules != "core_attn")
      notes.push_back("--recompute-modules " + modules + " is taken as core_attn");
    return Recomputed::kSelective;
  }
  if (granularity != "full") return Recomputed::kNothing;
  const int64_t layers = flags.number_or("recompute_num_layers", 1);
  if (flags.text("recompute_method") == "block" || layers > 1)
    notes.push_back("recomputation is taken as that of every layer by itself");
  return Recomputed::kLayers;
}

}  // namespace

CurrentRun megatron_run(const GivenFlags& flags) {
  return {flags.number("global_batch_size"), flags.number("seq_length")};
}

CurrentSetting megatron_setting(const GivenFlags& flags, const TransformerSizes& model, int ranks) {
  check_size(flags, "num_layers", model.layers, "layers");
  check_size(flags, "hidden_size", model.width, "features");
  check_size(flags, "num_attention_heads", model.heads, "heads");
  check_size(flags, "seq_length", model.context, "tokens a row");
  CurrentSetting current;
  ParallelSetting& setting = current.setting;
  const auto degree = [&](std::string_view name) {
    return static_cast<int>(std::min<int64_t>(flags.number_or(name, 1), 1 << 20));
  };
  setting.tensor = degree("tensor_model_parallel_size");
  setting.pipeline = degree("pipeline_model_parallel_size");
  setting.context = degree("context_parallel_size");
  const int data = data_ranks(ranks, int64_t{setting.tensor} * setting.pipeline * setting.context);
  setting.zero = zero_of(flags);
  const int64_t instances = flags.number_or("num_distributed_optimizer_instances", 1);
  if (data % instances != 0)
    refuse_config(
        fmt::format("--num-distributed-optimizer-instances of --current is {}", instances),
        fmt::format("it does not divide {} data-parallel ranks", data), "correct it");
  setting.replicate = setting.zero == 0 ? data : static_cast<int>(instances);
  setting.shard = data / setting.replicate;
  setting.sequence_parallel = flags.is_set("sequence_parallel") && setting.tensor > 1;
  setting.micro_batch = flags.number_or("micro_batch_size", 1);
  setting.global_batch = flags.number_or("global_batch_size", setting.micro_batch * data);
  setting.recomputed = recomputed_of(flags, current.notes);
  read_stages(flags, model, setting);
  for (const char* name : kNotDescribed)
    if (flags.is_set(name)) current.notes.push_back(flags.shown(name) + " is not counted");
  return current;
}

}  // namespace tessera
