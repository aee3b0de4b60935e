#include "cli/session.h"

#include <iostream>

#include "base/error.h"
#include "cli/text_table.h"

namespace tessera {
namespace {

Plan chosen_plan(const Arguments& arguments, const RunConfig& config) {
  if (!arguments.plan) return config.plan;
  return *arguments.plan == "serial" ? serial_plan() : read_plan(*arguments.plan);
}

Document data_settings(const DataConfig& data, int64_t context) {
  Document table;
  table["path"] = Document::List(data.path.begin(), data.path.end());
  table["tokens"] = data.tokens;
  table["max_bytes"] = data.max_bytes;
  table["held_out"] = data.held_out;
  table["stride"] = data.stride == 0 ? context : data.stride;
  table["shuffle"] = std::string(to_text(data.shuffle));
  table["tail"] = std::string(to_text(data.tail));
  return table;
}

Document train_settings(const TrainConfig& train) {
  Document table;
  table["batch"] = train.batch;
  table["steps"] = train.steps;
  table["seed"] = static_cast<int64_t>(train.seed);
  table["evaluate_every"] = train.evaluate_every;
  table["evaluate_batches"] = train.evaluate_batches;
  return table;
}

Document optimizer_settings(const OptimizerConfig& optimizer) {
  const bool is_adam = optimizer.kind == OptimizerKind::kAdam || optimizer.kind == OptimizerKind::kAdamW;
  Document table;
  table["kind"] = std::string(to_text(optimizer.kind));
  if (optimizer.kind == OptimizerKind::kMomentum) table["momentum"] = optimizer.momentum;
  if (is_adam) {
    table["beta1"] = optimizer.beta1;
    table["beta2"] = optimizer.beta2;
    table["epsilon"] = optimizer.epsilon;
  }
  table["weight_decay"] = optimizer.weight_decay;
  table["clip_norm"] = optimizer.clip_norm;
  table["learning_rate"] = optimizer.schedule.peak;
  table["schedule"] = std::string(to_text(optimizer.schedule.kind));
  table["warmup"] = optimizer.schedule.warmup;
  table["final"] = optimizer.schedule.final;
  return table;
}

}  // namespace

Session open_session(const Arguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  const bool sets_the_length = arguments.command == Command::kTrain || arguments.command == Command::kDemo;
  if (sets_the_length && arguments.steps) sets.push_back("train.steps=" + std::to_string(*arguments.steps));
  Session session;
  session.config = read_config(arguments.file, sets);
  session.plan = chosen_plan(arguments, session.config);
  if (arguments.ranks) check_ranks(session.plan, *arguments.ranks);
  return session;
}

std::shared_ptr<const TextData> load_text_of(RunConfig& config) {
  auto data = std::make_shared<const TextData>(load_text(config.data, config.model.context));
  config.model.vocabulary = data->vocabulary.size();
  return data;
}

void set_vocabulary(RunConfig& config) {
  if (config.data.tokens == "bytes")
    config.model.vocabulary = Vocabulary::bytes().size();
  else
    load_text_of(config);
}

Document resolved_settings(const RunConfig& config) {
  Document settings;
  settings["model"] = settings_of(config.model);
  settings["data"] = data_settings(config.data, config.model.context);
  settings["train"] = train_settings(config.train);
  settings["optimizer"] = optimizer_settings(config.optimizer);
  return settings;
}

std::string describe(const Plan& plan) {
  if (plan.meshes.empty()) return "plan '" + plan.name + "', one process";
  return "plan '" + plan.name + "' on mesh " + mesh_text(plan) + ", " + counted(plan.ranks(), "rank");
}

std::ostream& narration(const Arguments& arguments) {
  return arguments.json ? std::cerr : std::cout;
}

void print_result(const Arguments& arguments, const Document& json, const std::string& text) {
  std::cout << (arguments.json ? to_json(json, 2) + "\n" : text) << std::flush;
}

Document to_document(const std::vector<double>& numbers) {
  return Document::List(numbers.begin(), numbers.end());
}

}  // namespace tessera
