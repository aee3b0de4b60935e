// torchtitan 0.3.0: flags, JSON and Python; TOML of its versions to 0.2.2; some names of 2024.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "base/text/text.h"
#include "frontend/targets/internal/given_flags.h"

namespace tessera {
namespace {

/// The flag under any of its names. Of a Python file names have no section.
class Keys {
 public:
  explicit Keys(const GivenFlags& flags) : flags_(flags) {}

  /// The first of SECTION.NAME that is given, else NAME.
  std::string name(std::string_view leaf) const {
    for (const char* section : {"parallelism", "training", "experimental"})
      if (std::string whole = fmt::format("{}.{}", section, leaf); flags_.has(whole)) return whole;
    return std::string(leaf);
  }
  int64_t number(std::string_view leaf, int64_t fallback, int64_t min = 1) const {
    return flags_.number_or(name(leaf), fallback, min);
  }
  int degree(std::string_view leaf) const {
    return static_cast<int>(std::min<int64_t>(number(leaf, 1), 1 << 20));
  }
  std::optional<std::string> text(std::string_view leaf) const { return flags_.text(name(leaf)); }
  bool is_set(std::string_view leaf) const { return flags_.is_set(name(leaf)); }
  bool has(std::string_view leaf) const { return flags_.has(name(leaf)); }

 private:
  const GivenFlags& flags_;
};

Recomputed checkpointing_of(const GivenFlags& flags, std::vector<std::string>& notes) {
  std::string mode = flags.has("activation_checkpoint.mode")
                         ? flags.text("activation_checkpoint.mode").value_or("none")
                         : "";
  const bool has_keys = flags.has("activation_checkpoint.determinism_check");
  if (mode.empty() && has_keys)  // a JSON file does not tell the class
    mode = flags.has("activation_checkpoint.force_recompute_mm_shapes_by_fqns") ? "selective"
           : flags.has("activation_checkpoint.memory_budget")                   ? "memory-budget"
                                                                                : "full";
  if (mode.empty() && flags.has("activation_checkpoint"))
    mode = flags.text("activation_checkpoint").value_or("none");
  if (mode.empty() || mode == "given" || mode == "memory-budget" || mode == "memory_budget") {
    notes.push_back(mode.starts_with("memory")
                        ? "activation checkpointing by a memory budget is taken as selective"
                        : "activation checkpointing is not given: selective, as torchtitan has it");
    return Recomputed::kSelective;
  }
  // In Python the value is a class: SelectiveAC.Config().
  if (mode.starts_with("full") || mode.starts_with("FullAC")) return Recomputed::kLayers;
  if (mode.starts_with("selective") || mode.starts_with("SelectiveAC"))
    return Recomputed::kSelective;
  if (mode == "none") return Recomputed::kNothing;
  refuse_config(fmt::format("the activation checkpointing of --current is '{}'", excerpt(mode, 40)),
                "it is none, selective, full or memory-budget", "correct it");
}

/// The layers of each list of names of modules: [["tok_embeddings", "layers.0"], ...].
std::vector<int64_t> layers_of_names(std::string_view text) {
  std::vector<int64_t> counts;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' && ++depth == 2) counts.push_back(0);
    if (text[i] == ']') --depth;
    if (depth == 2 && text.substr(i, 7) == "layers.") ++counts.back();
  }
  return counts;
}

/// As torchtitan divides layers by itself: embedding and logits count as layers.
std::vector<int64_t> automatic_layers(int64_t layers, int64_t stages, int64_t first, int64_t last) {
  const int64_t all = layers + first + last, each = all / stages, rest = all % stages;
  std::vector<int64_t> counts(static_cast<size_t>(stages), each);
  for (int64_t i = 0; i < rest; ++i) ++counts[static_cast<size_t>(i)];
  counts.front() -= first;
  counts.back() -= last;
  return counts;
}

void read_parts(const Keys& keys, const TransformerSizes& model, ParallelSetting& setting,
                std::vector<std::string>& notes) {
  const std::string schedule = keys.text("pipeline_parallel_schedule").value_or("1F1B");
  setting.is_gpipe = schedule == "GPipe";
  const bool is_single = schedule == "1F1B" || schedule == "GPipe";
  if (!is_single && schedule != "Interleaved1F1B")
    notes.push_back("the schedule " + excerpt(schedule, 40) + " is taken as Interleaved1F1B");
  const int64_t pipeline = setting.pipeline;
  const auto names = keys.text("module_fqns_per_model_part");
  if (names && names->starts_with("[")) {
    setting.stage_layers = layers_of_names(*names);
  } else {
    const int64_t first = keys.number("pipeline_parallel_first_stage_less_layers", 1, 0);
    const int64_t last = keys.number("pipeline_parallel_last_stage_less_layers", 1, 0);
    int64_t stages = is_single ? pipeline : 2 * pipeline;
    if (keys.text("pipeline_parallel_layers_per_stage")) {
      const int64_t each = keys.number("pipeline_parallel_layers_per_stage", 1);
      stages = (model.layers + first + last + each - 1) / each;
    }
    if (stages > model.layers + first + last)
      refuse_config(fmt::format("the current setting has {} stages", stages),
                    fmt::format("the model has {} layers", model.layers),
                    "correct pipeline_parallel_degree");
    setting.stage_layers = automatic_layers(model.layers, stages, first, last);
  }
  const auto stages = std::ssize(setting.stage_layers);
  if (stages == 0 || stages % pipeline != 0)
    refuse_config(fmt::format("the current setting has {} stages", stages),
                  fmt::format("they are no multiple of {} pipeline ranks", pipeline),
                  "correct the stages, or pipeline_parallel_degree");
  setting.chunks = static_cast<int>(stages / pipeline);
}

}  // namespace

CurrentRun torchtitan_run(const GivenFlags& flags) {
  const Keys keys(flags);
  CurrentRun run;
  if (const int64_t rows = keys.number("global_batch_size", -1, -1); rows > 0) run.rows = rows;
  if (keys.has("seq_len")) run.context = keys.number("seq_len", 2048);
  return run;
}

CurrentSetting torchtitan_setting(const GivenFlags& flags, const TransformerSizes& model,
                                  int ranks) {
  const Keys keys(flags);
  check_size(flags, keys.name("seq_len"), model.context, "tokens a row");
  CurrentSetting current;
  ParallelSetting& setting = current.setting;
  setting.tensor = keys.degree("tensor_parallel_degree");
  setting.pipeline = keys.degree("pipeline_parallel_degree");
  setting.context = keys.degree("context_parallel_degree");
  setting.replicate = keys.degree("data_parallel_replicate_degree");
  const int64_t others = int64_t{setting.tensor} * setting.pipeline * setting.context;
  setting.shard = data_ranks(ranks, others * setting.replicate);
  const int64_t shard = keys.number("data_parallel_shard_degree", -1, -1);
  if (shard > 0 && shard != setting.shard)
    refuse_config(
        fmt::format("data_parallel_shard_degree of --current is {}", shard),
        fmt::format("with the other degrees and {} devices it is {}", ranks, setting.shard),
        "correct the degrees, or give the cluster on which it runs");
  setting.sequence_parallel =
      setting.tensor > 1 && !flags.has("parallelism.no_enable_sequence_parallel") &&
      (!keys.has("enable_sequence_parallel") || keys.is_set("enable_sequence_parallel"));
  const std::string reshard = keys.text("fsdp_reshard_after_forward").value_or("default");
  const bool gathers_again = reshard == "always" || (reshard == "default" && setting.pipeline == 1);
  setting.zero = setting.shard == 1 ? 0 : gathers_again ? 3 : 2;
  const int64_t local = keys.number(keys.has("batch_size") ? "batch_size" : "local_batch_size", 8);
  const int64_t global = keys.number("global_batch_size", -1, -1);
  setting.global_batch = global > 0 ? global : local * setting.data();
  setting.micro_batch = local;
  if (setting.pipeline > 1) {
    setting.micro_batch = keys.number("pipeline_parallel_microbatch_size", 1);
    read_parts(keys, model, setting, current.notes);
    if (global > local * setting.data())
      current.notes.push_back(
          "accumulation steps are taken as further micro-batches of one pipeline");
  }
  setting.recomputed = checkpointing_of(flags, current.notes);
  if (keys.number("expert_parallel_degree", 1) > 1)
    current.notes.push_back("expert_parallel_degree is not counted");
  return current;
}

}  // namespace tessera
