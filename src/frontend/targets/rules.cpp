#include "frontend/targets/rules.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <span>

#include "base/error.h"

namespace tessera {
namespace {

using Reason = std::optional<std::string>;

struct RuleCall {
  const ParallelSetting& setting;
  const TransformerSizes& model;
  const TargetMachines& machines;
};

struct Rule {
  std::string_view name, source;
  Reason (*broken)(const RuleCall& call);
};

Reason unless(bool holds, const std::string& reason) {
  return holds ? std::nullopt : Reason(reason);
}

// ---- what all of them ask for ----

Reason ranks_of_degrees(const RuleCall& c) {
  return unless(c.setting.ranks() == c.machines.ranks,
                fmt::format("the degrees make {} ranks, and there are {}", c.setting.ranks(),
                            c.machines.ranks));
}

Reason rows_divide(const RuleCall& c) {
  return unless(
      c.setting.micro_batches() > 0,
      fmt::format("a batch of {} rows is no multiple of {} rows on {} data-parallel ranks",
                  c.setting.global_batch, c.setting.micro_batch, c.setting.data()));
}

Reason heads_divide(const RuleCall& c) {
  return unless(
      c.model.heads % c.setting.tensor == 0,
      fmt::format("tp = {}, and the model has {} heads", c.setting.tensor, c.model.heads));
}

Reason layers_of_each_stage(const RuleCall& c) {
  const std::vector<int64_t> layers = layers_of_stages(c.setting, c.model.layers);
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (c.setting.stages() > c.model.layers)
    return fmt::format("{} stages for {} layers", c.setting.stages(), c.model.layers);
  return unless(std::ssize(layers) == c.setting.stages() && sum == c.model.layers,
                fmt::format("{} stages have {} layers, and the model has {}", layers.size(), sum,
                            c.model.layers));
}

Reason tensor_inside_a_machine(const RuleCall& c) {
  return unless(c.setting.tensor <= c.machines.ranks_of_machine,
                fmt::format("tp = {} leaves machines of {} devices", c.setting.tensor,
                            c.machines.ranks_of_machine));
}

constexpr Rule kOfAll[] = {
    {"the degrees make all ranks", "all", ranks_of_degrees},
    {"micro-batches divide the batch", "all", rows_divide},
    {"every stage has layers, and every layer a stage", "all", layers_of_each_stage},
    {"tp stays inside a machine", "all: its traffic is on the critical path",
     tensor_inside_a_machine},
};

// ---- torchtitan ----

Reason kv_heads_divide(const RuleCall& c) {
  return unless(c.model.kv_heads % c.setting.tensor == 0,
                fmt::format("tp = {}, and the model has {} heads of keys and values: they are not "
                            "replicated",
                            c.setting.tensor, c.model.kv_heads));
}

Reason tokens_divide_in_torchtitan(const RuleCall& c) {
  const int64_t parts = (c.setting.sequence_parallel ? c.setting.tensor : 1) *
                        (c.setting.context > 1 ? 2 * c.setting.context : 1);
  return unless(c.model.context % parts == 0,
                fmt::format("a row of {} tokens is no multiple of {}", c.model.context, parts));
}

Reason tied_without_stages(const RuleCall& c) {
  return unless(!c.model.tied || c.setting.pipeline == 1,
                "the embedding is tied to the logits, which are on another stage");
}

Reason micro_batches_of_stages(const RuleCall& c) {
  if (c.setting.pipeline == 1 || c.setting.is_gpipe) return std::nullopt;
  const int64_t count = c.setting.micro_batches();
  if (c.setting.chunks == 1)
    return unless(count >= c.setting.stages(),
                  fmt::format("{} micro-batches for {} stages", count, c.setting.stages()));
  const int64_t rounds = std::max<int64_t>(1, count / c.setting.pipeline);
  return unless(count % rounds == 0,
                fmt::format("{} micro-batches are not divided by {} rounds", count, rounds));
}

Reason zero_of_torchtitan(const RuleCall& c) {
  return unless(c.setting.zero != 1,
                "optimizer state alone cannot be divided: FSDP divides gradients, too");
}

constexpr Rule kOfTorchtitan[] = {
    {"tp divides the heads", "models/common/decoder.py:154", heads_divide},
    {"tp divides the heads of keys and values", "models/common/decoder.py:154", kv_heads_divide},
    {"tp and 2 cp divide the tokens of a row", "trainer.py:307", tokens_divide_in_torchtitan},
    {"a tied embedding has no pipeline", "models/common/decoder.py:141", tied_without_stages},
    {"a pipeline has micro-batches enough", "torch/distributed/pipelining/schedules.py",
     micro_batches_of_stages},
    {"no ZeRO-1", "distributed/fsdp.py", zero_of_torchtitan},
};

// ---- Megatron-LM ----

Reason groups_divide(const RuleCall& c) {
  return unless(
      c.model.kv_heads % c.setting.tensor == 0 || c.setting.tensor % c.model.kv_heads == 0,
      fmt::format("tp = {}, and the model has {} query groups", c.setting.tensor,
                  c.model.kv_heads));
}

Reason features_divide(const RuleCall& c) {
  return unless(c.model.ffn % c.setting.tensor == 0,
                fmt::format("tp = {} does not divide the {} features of the feed-forward",
                            c.setting.tensor, c.model.ffn));
}

Reason tokens_divide_in_megatron(const RuleCall& c) {
  if (c.setting.context > 1 && c.model.context % (2 * c.setting.context) != 0)
    return fmt::format("a row of {} tokens is no multiple of {}", c.model.context,
                       2 * c.setting.context);
  const int64_t tokens = c.model.context / c.setting.context;
  return unless(!c.setting.sequence_parallel || tokens % c.setting.tensor == 0,
                fmt::format("{} tokens are no multiple of tp = {}", tokens, c.setting.tensor));
}

Reason sequence_with_tensor(const RuleCall& c) {
  return unless(!c.setting.sequence_parallel || c.setting.tensor > 1,
                "sequence parallelism is with tp alone");
}

Reason interleaved_micro_batches(const RuleCall& c) {
  if (c.setting.chunks == 1) return std::nullopt;
  if (c.setting.pipeline == 1) return "virtual stages need a pipeline";
  const int64_t count = c.setting.micro_batches(), rest = count % c.setting.pipeline;
  return unless(
      count >= c.setting.pipeline && (rest == 0 || rest >= c.setting.pipeline),
      fmt::format("{} micro-batches are no multiple of pp = {}", count, c.setting.pipeline));
}

Reason one_f_one_b(const RuleCall& c) {
  return unless(!c.setting.is_gpipe || c.setting.pipeline == 1, "its schedules are 1F1B");
}

Reason zero_of_megatron(const RuleCall& c) {
  return unless(c.setting.zero <= 1, "the distributed optimizer divides optimizer state alone");
}

constexpr Rule kOfMegatron[] = {
    {"tp divides the heads", "core/transformer/transformer_config.py", heads_divide},
    {"tp divides the query groups, or they divide tp", "core/transformer/transformer_config.py",
     groups_divide},
    {"tp divides the feed-forward", "core/tensor_parallel/layers.py", features_divide},
    {"tp and 2 cp divide the tokens of a row", "core/tensor_parallel/mappings.py",
     tokens_divide_in_megatron},
    {"sequence parallelism has tp", "core/model_parallel_config.py", sequence_with_tensor},
    {"virtual stages have rounds of micro-batches", "core/pipeline_parallel/schedules.py",
     interleaved_micro_batches},
    {"pipelines are 1F1B", "core/pipeline_parallel/schedules.py", one_f_one_b},
    {"ZeRO-1 at most", "core/optimizer/distrib_optimizer.py", zero_of_megatron},
};

// ---- FSDP2 ----

Reason data_parallel_alone(const RuleCall& c) {
  return unless(c.setting.tensor == 1 && c.setting.pipeline == 1 && c.setting.context == 1,
                "fully_shard divides over data-parallel ranks alone");
}

Reason zero_of_fsdp(const RuleCall& c) {
  return unless(c.setting.zero >= 2 || c.setting.shard == 1,
                "fully_shard divides gradients and optimizer state together");
}

constexpr Rule kOfFsdp[] = {
    {"data parallelism alone", "torch/distributed/fsdp/_fully_shard", data_parallel_alone},
    {"ZeRO-2 or ZeRO-3", "torch/distributed/fsdp/_fully_shard", zero_of_fsdp},
};

std::span<const Rule> own_rules(Target target) {
  switch (target) {
    case Target::kTorchtitan: return kOfTorchtitan;
    case Target::kMegatron: return kOfMegatron;
    case Target::kFsdp: return kOfFsdp;
  }
  throw InternalError("unknown target");
}

}  // namespace

std::string_view version_of(Target target) {
  switch (target) {
    case Target::kTorchtitan: return "torchtitan 0.3.0";
    case Target::kMegatron: return "Megatron-LM core_v0.16.1";
    case Target::kFsdp: return "PyTorch 2.15 FSDP2";
  }
  throw InternalError("unknown target");
}

std::vector<BrokenRule> broken_rules(Target target, const ParallelSetting& setting,
                                     const TransformerSizes& model,
                                     const TargetMachines& machines) {
  std::vector<BrokenRule> broken;
  const RuleCall call{setting, model, machines};
  for (const std::span<const Rule> rules : {std::span<const Rule>(kOfAll), own_rules(target)})
    for (const Rule& rule : rules)
      if (const Reason reason = rule.broken(call))
        broken.push_back({rule.name, *reason, rule.source});
  return broken;
}

std::vector<std::pair<std::string_view, std::string_view>> rules_of(Target target) {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (const std::span<const Rule> rules : {std::span<const Rule>(kOfAll), own_rules(target)})
    for (const Rule& rule : rules) list.emplace_back(rule.name, rule.source);
  return list;
}

}  // namespace tessera
