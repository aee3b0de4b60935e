#include "engine/config.h"

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tessera {
namespace {

constexpr int64_t kMany = int64_t{1} << 40;

DataConfig read_data(ConfigTable table) {
  DataConfig data;
  data.path = table.texts("path", {});
  data.tokens = table.choice("tokens", data.tokens, {"bytes", "characters"});
  data.max_bytes = table.integer("max_bytes", data.max_bytes, 1, kMany);
  data.held_out = table.number("held_out", data.held_out, 0.0, 0.9);
  data.stride = table.integer("stride", data.stride, 0, kMany);
  const std::string shuffle = table.choice("shuffle", "before_split", {"none", "before_split", "after_split"});
  data.shuffle = shuffle == "none" ? Shuffle::kNone : shuffle == "before_split" ? Shuffle::kBeforeSplit : Shuffle::kAfterSplit;
  data.tail = table.choice("tail", "drop", {"drop", "pad"}) == "drop" ? Tail::kDrop : Tail::kPad;
  table.finish();
  return data;
}

TrainConfig read_train(ConfigTable table) {
  TrainConfig train;
  train.batch = table.integer("batch", train.batch, 1, 1 << 24);
  train.steps = table.integer("steps", train.steps, 0, kMany);
  train.seed = static_cast<uint64_t>(table.integer("seed", static_cast<int64_t>(train.seed), 0, kMany));
  train.evaluate_every = table.integer("evaluate_every", train.evaluate_every, 0, kMany);
  train.evaluate_batches = table.integer("evaluate_batches", train.evaluate_batches, 1, kMany);
  table.finish();
  return train;
}

OptimizerConfig read_optimizer(ConfigTable table, int64_t steps) {
  OptimizerConfig optimizer;
  const std::string kind = table.choice("kind", "adamw", {"sgd", "momentum", "adam", "adamw"});
  for (OptimizerKind candidate : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam, OptimizerKind::kAdamW})
    if (kind == to_text(candidate)) optimizer.kind = candidate;
  optimizer.momentum = table.number("momentum", optimizer.momentum, 0, 1);
  optimizer.beta1 = table.number("beta1", optimizer.beta1, 0, 1);
  optimizer.beta2 = table.number("beta2", optimizer.beta2, 0, 1);
  optimizer.epsilon = table.number("epsilon", optimizer.epsilon, 0, 1);
  optimizer.weight_decay = table.number("weight_decay", optimizer.weight_decay, 0, 10);
  optimizer.clip_norm = table.number("clip_norm", optimizer.clip_norm, 0, 1e9);
  optimizer.schedule.peak = table.number("learning_rate", optimizer.schedule.peak, 0, 1e3);
  const std::string schedule = table.choice("schedule", "constant", {"constant", "cosine", "linear"});
  for (ScheduleKind candidate : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear})
    if (schedule == to_text(candidate)) optimizer.schedule.kind = candidate;
  optimizer.schedule.warmup = table.integer("warmup", 0, 0, kMany);
  optimizer.schedule.steps = steps;
  optimizer.schedule.final = table.number("final", 0, 0, 1);
  table.finish();
  return optimizer;
}

CheckpointConfig read_checkpoint(ConfigTable table) {
  CheckpointConfig checkpoint;
  checkpoint.every = table.integer("every", checkpoint.every, 0, kMany);
  checkpoint.keep_last = static_cast<int>(table.integer("keep_last", checkpoint.keep_last, 0, 1 << 20));
  table.finish();
  return checkpoint;
}

/// [parallel] is a plan without its stamps: mesh = {dp = 2, tp = 2} and [[parallel.marks]].
Plan read_parallel(const Document* table, const std::string& file) {
  if (!table) return serial_plan();
  Plan plan = parse_plan(*table, file + " [parallel]");
  plan.name = "config";
  return plan;
}

/// Sets `key = value` where key is a dotted path.
void override_key(Document& document, const std::string& set) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UserError("--set " + set + " is not key=value", "an override names a key of the configuration and its value",
                    "write --set train.steps=10", ExitCode::kUsage);
  const std::string value(trim(std::string_view(set).substr(equals + 1)));
  Document parsed;
  try {
    parsed = *parse_toml("value = " + value, "--set").find("value");
  } catch (const UserError&) {
    parsed = value;  // a text without quotes
  }
  Document* place = &document;
  for (const std::string& key : split_text(trim(std::string_view(set).substr(0, equals)), '.')) {
    if (!place->is_table() && !place->is_null())
      throw UserError("--set " + set + " goes into a value", "a part of the key before '" + key + "' is not a table",
                      "use a key such as train.steps", ExitCode::kBadConfig);
    place = &(*place)[key];
  }
  *place = std::move(parsed);
}

RunConfig parse_config(Document document, const std::string& file, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) override_key(document, set);
  ConfigTable table(&document, "", file);
  RunConfig config;
  config.file = file;
  config.model = read_model_config(table.table("model"));
  config.data = read_data(table.table("data"));
  config.train = read_train(table.table("train"));
  config.optimizer = read_optimizer(table.table("optimizer"), config.train.steps);
  config.checkpoint = read_checkpoint(table.table("checkpoint"));
  config.plan = read_parallel(table.raw("parallel"), file);
  table.finish();
  if (config.data.path.empty())
    throw UserError(file + ": data.path is missing", "a run needs text to train on",
                    "set data.path to files or folders, here or by --set data.path=FOLDER", ExitCode::kBadConfig);
  return config;
}

}  // namespace

RunConfig read_config(const std::filesystem::path& file, const std::vector<std::string>& sets) {
  return parse_config(parse_toml(read_file(file), file.string()), file.string(), sets);
}

RunConfig read_settings(const Document& settings, const std::string& origin, const std::vector<std::string>& sets) {
  Document document = settings;
  int64_t vocabulary = 0;  // follows from the text, so a configuration does not say it
  if (Document* model = document.find("model"); model && model->is_table()) {
    Document::Table table = model->as_table();
    std::erase_if(table, [&](const auto& entry) {
      if (entry.first != "vocabulary" || !entry.second.is_int()) return false;
      vocabulary = entry.second.as_int();
      return true;
    });
    *model = std::move(table);
  }
  RunConfig config = parse_config(std::move(document), origin, sets);
  config.model.vocabulary = vocabulary;
  return config;
}

}  // namespace tessera
