// Small runs for tests: configurations, plans and text that the tests make themselves.
#pragma once

#include <memory>
#include <string>

#include "base/random.h"
#include "engine/engine.h"

namespace tessera {

/// 6000 tokens with some order in them: each letter tends to be followed by the next but one.
inline std::shared_ptr<const TextData> small_text(int64_t context = 12) {
  std::vector<int32_t> tokens;
  const RandomStream stream(random_key(3, "text"), 0);
  int32_t token = 0;
  for (uint64_t i = 0; i < 6000; ++i) {
    token = stream.uniform(i) < 0.7f ? (token + 2) % 40 : static_cast<int32_t>(stream.uniform(i + 100000) * 40);
    tokens.push_back(token);
  }
  auto data = std::make_shared<TextData>();
  TextSplit split = hold_out(std::move(tokens), 0.1, context + 1);
  data->bigram_entropy = bigram_entropy(split.held_out, 256);
  data->train = std::make_shared<const TextDataset>(std::move(split.train), context, context);
  data->held_out = std::make_shared<const TextDataset>(std::move(split.held_out), context, context);
  return data;
}

inline RunConfig tiny_run(const std::string& kind) {
  RunConfig config;
  config.model.kind = kind;
  config.model.vocabulary = 50;
  config.model.context = 12;
  config.model.layers = 2;
  config.model.width = 32;
  config.model.heads = 4;
  config.model.embedding = 8;
  config.model.dropout = 0.1;
  config.train.batch = 6;
  config.train.steps = 40;
  config.train.seed = 7;
  config.optimizer.schedule.peak = 3e-3;
  config.optimizer.schedule.steps = 40;
  config.optimizer.clip_norm = 1.0;
  config.optimizer.weight_decay = 0.01;
  return config;
}
inline RunConfig tiny_gpt() {
  return tiny_run("gpt");
}
inline RunConfig tiny_mlp() {
  return tiny_run("mlp");
}

/// The stages of tiny_gpt and tiny_mlp under "pp2", each on the rest of the axes.
inline void add_stages(Plan& plan, const std::string& model, const ProcessMesh& mesh) {
  plan.meshes.clear();
  const char* names[] = {"first", "last"};
  for (int64_t s = 0; s < 2; ++s) {
    ProcessMesh part = mesh.slice("pp", s);
    if (part.axis_count() == 0) part = ProcessMesh({1}, {"all"}, part.processes());
    plan.meshes.push_back({names[s], std::make_shared<const ProcessMesh>(part)});
  }
  const std::string second = model == "gpt" ? "blocks.1" : "hidden.1";
  const std::string first = model == "gpt" ? "blocks.0" : "hidden.0";
  plan.marks.push_back(stage(first + ".*", "first"));
  plan.marks.push_back(stage(second + ".*", "last"));
}

/// The hand-made plans of configs/plans, in code: "serial", "dpN", "tpN", "pp2" and what they make together; "-mN" for N micro-batches.
inline Plan plan_of(const std::string& model, std::string name) {
  Plan plan;
  plan.name = name;
  if (const size_t m = name.find("-m"); m != std::string::npos) {
    plan.micro_batches = std::stoi(name.substr(m + 2));
    name.resize(m);
  }
  if (name == "serial") return plan;
  const ProcessMesh mesh = parse_mesh(name);
  plan.meshes = one_mesh(std::make_shared<const ProcessMesh>(mesh));
  if (name.find("pp") != std::string::npos) add_stages(plan, model, mesh);
  if (name.find("dp") != std::string::npos) {
    plan.marks.push_back(shard_tensor("tokens", "P(\"dp\")"));
    plan.marks.push_back(shard_tensor("labels", "P(\"dp\")"));
  }
  if (name.find("tp") == std::string::npos) return plan;
  plan.marks.push_back(shard_tensor("tokens.weight", "P(\"tp\")"));
  plan.marks.push_back(shard_tensor("head.weight", "P(None, \"tp\")"));
  if (model == "mlp") {
    plan.marks.push_back(shard_tensor("hidden.0.weight", "P(None, \"tp\")"));
    plan.marks.push_back(shard_tensor("hidden.1.weight", "P(\"tp\")"));
    return plan;
  }
  plan.marks.push_back(shard_tensor("blocks.*.attn.{q,k,v}.weight", "P(None, \"tp\")"));
  plan.marks.push_back(shard_tensor("blocks.*.attn.{q,k,v}.bias", "P(\"tp\")"));
  plan.marks.push_back(shard_tensor("blocks.*.attn.out.weight", "P(\"tp\")"));
  plan.marks.push_back(shard_tensor("blocks.*.ffn.up.weight", "P(None, \"tp\")"));
  plan.marks.push_back(shard_tensor("blocks.*.ffn.up.bias", "P(\"tp\")"));
  plan.marks.push_back(shard_tensor("blocks.*.ffn.down.weight", "P(\"tp\")"));
  return plan;
}

}  // namespace tessera
