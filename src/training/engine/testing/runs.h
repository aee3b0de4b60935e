// Small runs for tests: configurations, plans, and text that the tests generate.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "training/engine/engine.h"

namespace tessera {

/// 6000 tokens with a pattern: each letter is often followed by the letter two places after it in
/// the alphabet.
inline std::shared_ptr<const RunData> small_text(int64_t context = 8) {
  std::vector<int32_t> tokens;
  const RandomStream stream(random_key(3, "text"), 0);
  int32_t token = 0;
  for (uint64_t i = 0; i < 6000; ++i) {
    token = stream.uniform(i) < 0.7f ? (token + 2) % 40
                                     : static_cast<int32_t>(stream.uniform(i + 100000) * 40);
    tokens.push_back(token);
  }
  auto data = std::make_shared<RunData>();
  TextSplit split = hold_out(std::move(tokens), 0.1, context + 1);
  data->classes = 256;
  data->baseline = BaselineLoss{"bigram_entropy", "bigram entropy of the held-out text",
                                bigram_entropy(split.held_out, 256)};
  data->train = std::make_shared<const TextDataset>(std::move(split.train), context, context);
  data->held_out = std::make_shared<const TextDataset>(std::move(split.held_out), context, context);
  return data;
}

/// Configurations of models of two layers by name: the families of model.h, and "gpt_tied".
inline RunConfig tiny_run(const std::string& model) {
  RunConfig config;
  config.model.kind = model == "gpt_tied" ? "gpt" : model;
  config.model.tied = model == "gpt_tied";
  config.model.vocabulary = 50;
  config.model.context = 8;
  config.model.layers = 2;
  config.model.width = 32;
  config.model.heads = 4;
  config.model.kv_heads = 2;
  config.model.embedding = 8;
  config.model.dropout = 0.1;
  config.train.batch = 8;
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
inline RunConfig tiny_llama() {
  return tiny_run("llama");
}

/// The ops of each stage of tiny_run(model) under "pp<count>".
inline std::vector<std::string> stages_of(const std::string& model, int64_t count) {
  if (model == "mlp") return {"hidden.0.*", "hidden.1.*"};
  if (model == "encoder_decoder") return {"encoder.*", "decoder.*"};
  if (model == "two_tower" && count == 3) return {"left.*", "right.*", "joined.*"};
  if (model == "two_tower") return {"left.*", "{right,joined}.*"};
  if (count == 4)
    return {"blocks.0.{norm1,attn}.*", "blocks.0.{norm2,ffn}.*", "blocks.1.{norm1,attn}.*",
            "blocks.1.{norm2,ffn}.*"};
  return {"blocks.0.*", "blocks.1.*"};
}

/// Adds a mesh for each stage, with all axes except "pp", and the marks that assign its ops to it.
inline void add_stages(Plan& plan, const std::string& model, const Mesh& mesh) {
  plan.meshes.clear();
  const std::vector<std::string> stages = stages_of(model, mesh.shape()[mesh.axis("pp")]);
  for (size_t s = 0; s < stages.size(); ++s) {
    Mesh part = mesh.slice("pp", static_cast<int64_t>(s));
    if (part.axis_count() == 0) part = Mesh({1}, {"all"}, part.ranks());
    const std::string name = "stage" + std::to_string(s);
    plan.meshes.push_back({name, std::make_shared<const Mesh>(part)});
    plan.marks.push_back(stage(stages[s], name));
  }
}

/// Divides heads, inner channels and the vocabulary by "tp".
inline void add_tensor_parallel_marks(Plan& plan, const std::string& model) {
  const auto mark = [&plan](const char* pattern, const char* placement) {
    plan.marks.push_back(shard_tensor(pattern, placement));
  };
  mark("*tokens.weight", "P(\"tp\")");
  if (model != "gpt_tied") mark("head.weight", "P(None, \"tp\")");
  if (model == "mlp") {
    mark("hidden.0.weight", "P(None, \"tp\")");
    mark("hidden.1.weight", "P(\"tp\")");
    return;
  }
  mark("*blocks.*.{attn,self,cross}.{q,k,v}.weight", "P(None, \"tp\")");
  mark("*blocks.*.{attn,self,cross}.out.weight", "P(\"tp\")");
  mark("*blocks.*.ffn.{gate,up}.weight", "P(None, \"tp\")");
  mark("*blocks.*.ffn.down.weight", "P(\"tp\")");
  if (model == "llama") return;  // it has no biases
  mark("*blocks.*.{attn,self,cross}.{q,k,v}.bias", "P(\"tp\")");
  mark("*blocks.*.ffn.up.bias", "P(\"tp\")");
}

/// The hand-made plans of configs/plans, in code: "serial", "dpN", "tpN", "ppN" and their
/// combinations; "-mN" for N micro-batches.
inline Plan plan_of(const std::string& model, std::string name) {
  Plan plan;
  plan.name = name;
  if (const size_t m = name.find("-m"); m != std::string::npos) {
    plan.micro_batches = std::stoi(name.substr(m + 2));
    name.resize(m);
  }
  if (name == "serial") return plan;
  const Mesh mesh = parse_mesh(name);
  plan.meshes = one_mesh(std::make_shared<const Mesh>(mesh));
  if (name.find("pp") != std::string::npos) add_stages(plan, model, mesh);
  if (name.find("dp") != std::string::npos)
    plan.marks.push_back(shard_tensor("{tokens,labels}", "P(\"dp\")"));
  if (name.find("tp") != std::string::npos) add_tensor_parallel_marks(plan, model);
  return plan;
}

}  // namespace tessera
