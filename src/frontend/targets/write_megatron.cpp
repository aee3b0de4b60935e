// Megatron-LM core_v0.16.1: the arguments of pretrain_gpt.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/targets/internal/target_writers.h"
#include "frontend/targets/writers.h"

namespace tessera {
namespace {

class Arguments {
 public:
  void add(const char* name) { flags_.push_back({name}); }
  template <typename Value>
  void add(const char* name, const Value& value) {
    flags_.push_back({name, fmt::format("{}", value)});
  }
  std::vector<Flag> flags() const { return flags_; }

 private:
  std::vector<Flag> flags_;
};

void add_model(const TransformerSizes& m, Arguments& arguments) {
  arguments.add("--num-layers", m.layers);
  arguments.add("--hidden-size", m.width);
  arguments.add("--ffn-hidden-size", m.ffn);
  arguments.add("--num-attention-heads", m.heads);
  if (m.kv_heads != m.heads) {
    arguments.add("--group-query-attention");
    arguments.add("--num-query-groups", m.kv_heads);
  }
  if (m.head * m.heads != m.width) arguments.add("--kv-channels", m.head);
  arguments.add("--seq-length", m.context);
  arguments.add("--max-position-embeddings", m.context);
  if (m.is_gated) arguments.add("--swiglu");
  if (!m.tied) arguments.add("--untie-embeddings-and-output-weights");
}

bool are_even(const std::vector<int64_t>& layers) {
  return std::ranges::all_of(layers, [&](int64_t count) { return count == layers.front(); });
}

void add_pipeline(const ParallelSetting& s, const TransformerSizes& m, Arguments& arguments) {
  arguments.add("--pipeline-model-parallel-size", s.pipeline);
  if (s.pipeline == 1) return;
  const std::vector<int64_t> layers = layers_of_stages(s, m.layers);
  if (!are_even(layers))
    arguments.add("--pipeline-model-parallel-layout", megatron_layout(layers));
  else if (s.chunks > 1)
    arguments.add("--num-virtual-stages-per-pipeline-rank", s.chunks);
}

void add_recomputation(Recomputed recomputed, Arguments& arguments) {
  if (recomputed == Recomputed::kNothing) return;
  arguments.add("--recompute-granularity", to_text(recomputed));
  if (recomputed == Recomputed::kSelective) {
    arguments.add("--recompute-modules", "core_attn");
    return;
  }
  arguments.add("--recompute-method", "uniform");
  arguments.add("--recompute-num-layers", 1);
}

}  // namespace

std::vector<Flag> megatron_flags(const TargetPlan& plan) {
  const ParallelSetting& s = plan.setting;
  Arguments arguments;
  arguments.add("--tensor-model-parallel-size", s.tensor);
  if (s.sequence_parallel && s.tensor > 1) arguments.add("--sequence-parallel");
  add_pipeline(s, plan.model, arguments);
  arguments.add("--context-parallel-size", s.context);
  if (s.zero > 0) {
    arguments.add("--use-distributed-optimizer");
    arguments.add("--overlap-grad-reduce");
    arguments.add("--overlap-param-gather");
    if (s.replicate > 1) arguments.add("--num-distributed-optimizer-instances", s.replicate);
  }
  add_recomputation(s.recomputed, arguments);
  arguments.add("--micro-batch-size", s.micro_batch);
  arguments.add("--global-batch-size", s.global_batch);
  arguments.add("--bf16");
  add_model(plan.model, arguments);
  return arguments.flags();
}

std::string megatron_layout(const std::vector<int64_t>& layers) {
  std::vector<std::string> stages;
  for (const int64_t count : layers)
    stages.push_back(count == 0 ? "" : count == 1 ? "t" : fmt::format("t*{}", count));
  stages.front().insert(0, "E");
  stages.back() += stages.back().empty() || stages.back() == "E" ? "L" : ",L";
  return fmt::format("{}", fmt::join(stages, "|"));
}

}  // namespace tessera
