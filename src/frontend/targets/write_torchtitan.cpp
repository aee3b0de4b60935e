// torchtitan 0.3.0: a Python module with a function for its config_registry, and the same as
// overrides of the command line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/targets/internal/target_writers.h"
#include "frontend/targets/writers.h"

namespace tessera {
namespace {

/// The configuration that the module changes, of those that torchtitan has.
struct Base {
  std::string_view model, module, function;
};
constexpr Base kBases[] = {
    {"llama3-8b", "torchtitan.models.llama3.config_registry", "llama3_8b"},
    {"llama3-70b", "torchtitan.models.llama3.config_registry", "llama3_70b"},
    {"llama3-405b", "torchtitan.models.llama3.config_registry", "llama3_405b"},
    {"qwen3-0.6b", "torchtitan.models.qwen3.config_registry", "qwen3_0_6b"},
    {"qwen3-32b", "torchtitan.models.qwen3.config_registry", "qwen3_32b"},
};
constexpr Base kAnyBase = {"", "torchtitan.models.llama3.config_registry", "llama3_debugmodel"};

const Base& base_of(const std::string& model) {
  const auto found = std::ranges::find(kBases, model, &Base::model);
  return found == std::end(kBases) ? kAnyBase : *found;
}

/// The data-parallel ranks that keep all of the state, and those that divide it.
int replicas(const ParallelSetting& s) {
  return s.zero == 0 ? s.data() : s.replicate;
}
int shards(const ParallelSetting& s) {
  return s.zero == 0 ? 1 : s.shard;
}

/// FSDP gathers parameters again in the backward where the setting divides them. By default it does
/// so without a pipeline.
std::string_view reshard_of(const ParallelSetting& s) {
  if (s.zero == 3) return s.pipeline > 1 ? "always" : "default";
  return s.shard > 1 && s.zero == 2 ? "never" : "default";
}

std::string_view schedule_of(const ParallelSetting& s) {
  if (s.chunks > 1) return "Interleaved1F1B";
  return s.is_gpipe ? "GPipe" : "1F1B";
}

/// With a pipeline a step has one accumulation step, whose rows are its micro-batches.
int64_t local_batch(const ParallelSetting& s) {
  return s.pipeline > 1 ? s.micro_batch * s.micro_batches() : s.micro_batch;
}

std::string_view checkpoint_command(Recomputed recomputed) {
  switch (recomputed) {
    case Recomputed::kNothing: return "activation-checkpoint:none";
    case Recomputed::kSelective: return "activation-checkpoint:selective";
    default: return "activation-checkpoint:full";
  }
}

std::string_view checkpoint_class(Recomputed recomputed) {
  switch (recomputed) {
    case Recomputed::kNothing: return "None";
    case Recomputed::kSelective: return "SelectiveAC.Config()";
    default: return "FullAC.Config()";
  }
}

std::string parts_text(const std::vector<std::vector<std::string>>& parts) {
  std::string text = "[\n";
  for (const std::vector<std::string>& part : parts) {
    text += "        [";
    for (size_t i = 0; i < part.size(); ++i)
      text += fmt::format("{}\"{}\"", i == 0 ? "" : i % 6 == 0 ? ",\n         " : ", ", part[i]);
    text += "],\n";
  }
  return text + "    ]";
}

std::string torchtitan_module(const TargetPlan& plan) {
  const ParallelSetting& s = plan.setting;
  const Base& base = base_of(plan.model_name);
  std::string text = fmt::format(
      "\"\"\"The plan of tessera for torchtitan 0.3.0: --module tessera_plan --config "
      "planned.\"\"\"\n"
      "from {} import {} as base\n"
      "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC  # noqa: F401\n"
      "\n\n"
      "def planned():\n",
      base.module, base.function);
  if (base.model.empty())
    text +=
        "    # torchtitan has no configuration of this model that is known here: import yours as "
        "base.\n";
  text += fmt::format(
      "    config = base()\n"
      "    parallelism = config.parallelism\n"
      "    parallelism.data_parallel_replicate_degree = {}\n"
      "    parallelism.data_parallel_shard_degree = {}\n"
      "    parallelism.context_parallel_degree = {}\n"
      "    parallelism.tensor_parallel_degree = {}\n"
      "    parallelism.pipeline_parallel_degree = {}\n"
      "    parallelism.enable_sequence_parallel = {}\n"
      "    parallelism.fsdp_reshard_after_forward = \"{}\"\n",
      replicas(s), shards(s), s.context, s.tensor, s.pipeline,
      s.sequence_parallel || s.tensor == 1 ? "True" : "False", reshard_of(s));
  if (s.pipeline > 1)
    text += fmt::format(
        "    parallelism.pipeline_parallel_schedule = \"{}\"\n"
        "    parallelism.pipeline_parallel_microbatch_size = {}\n"
        "    parallelism.pipeline_parallel_layers_per_stage = None\n"
        "    parallelism.module_fqns_per_model_part = {}\n",
        schedule_of(s), s.micro_batch,
        parts_text(torchtitan_parts(layers_of_stages(s, plan.model.layers))));
  text += fmt::format(
      "    training = config.training\n"
      "    training.local_batch_size = {}\n"
      "    training.global_batch_size = {}\n"
      "    training.seq_len = {}\n",
      local_batch(s), s.global_batch, plan.model.context);
  if (s.pipeline > 1)
    text += "    training.disable_cuda_graphs = True  # pipelines do not run with CUDA graphs\n";
  return text + fmt::format("    config.activation_checkpoint = {}\n    return config\n",
                            checkpoint_class(s.recomputed));
}

}  // namespace

std::vector<Flag> torchtitan_flags(const TargetPlan& plan) {
  const ParallelSetting& s = plan.setting;
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const auto& value) {
    flags.push_back({fmt::format("--parallelism.{}", name), fmt::format("{}", value)});
  };
  add("data_parallel_replicate_degree", replicas(s));
  add("data_parallel_shard_degree", shards(s));
  add("context_parallel_degree", s.context);
  add("tensor_parallel_degree", s.tensor);
  if (s.tensor > 1 && !s.sequence_parallel)
    flags.push_back({"--parallelism.no-enable-sequence-parallel"});
  add("fsdp_reshard_after_forward", reshard_of(s));
  add("pipeline_parallel_degree", s.pipeline);
  if (s.pipeline > 1) {
    add("pipeline_parallel_schedule", schedule_of(s));
    add("pipeline_parallel_microbatch_size", s.micro_batch);
    // Stages of unequal size are in the module alone.
    if (plan.model.layers % s.stages() == 0) {
      add("pipeline_parallel_layers_per_stage", plan.model.layers / s.stages());
      add("pipeline_parallel_first_stage_less_layers", 0);
      add("pipeline_parallel_last_stage_less_layers", 0);
    }
  }
  flags.push_back({"--training.local_batch_size", std::to_string(local_batch(s))});
  flags.push_back({"--training.global_batch_size", std::to_string(s.global_batch)});
  flags.push_back({"--training.seq_len", std::to_string(plan.model.context)});
  if (s.pipeline > 1) flags.push_back({"--training.disable_cuda_graphs"});
  flags.push_back({std::string(checkpoint_command(s.recomputed))});  // a subcommand, so the last
  return flags;
}

std::vector<TargetFile> torchtitan_files(const TargetPlan& plan) {
  return {{"tessera_plan.py", torchtitan_module(plan)}};
}

std::vector<std::vector<std::string>> torchtitan_parts(const std::vector<int64_t>& layers) {
  std::vector<std::vector<std::string>> parts;
  int64_t layer = 0;
  for (const int64_t count : layers) {
    std::vector<std::string>& part = parts.emplace_back();
    if (parts.size() == 1) part.emplace_back("tok_embeddings");
    for (const int64_t end = layer + count; layer < end; ++layer)
      part.push_back("layers." + std::to_string(layer));
  }
  for (const char* name : {"norm", "lm_head"}) parts.back().emplace_back(name);
  return parts;
}

}  // namespace tessera
