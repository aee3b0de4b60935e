#include "training/config/config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "training/config/internal/key_aliases.h"
#include "training/config/internal/training_keys.h"

namespace tessera {
namespace {

/// Checks that what depends on evaluations during the run has some.
void check_evaluates(const ConfigTable& table, bool is_set, const std::string& key,
                     int64_t evaluate_every) {
  if (!is_set || evaluate_every > 0) return;
  throw UserError(table.file() + ": " + key + " is set and train.evaluate_every is 0",
                  key +
                      " compares the held-out losses of evaluations during the run, and there "
                      "is only one, at the end",
                  "set train.evaluate_every, such as to 100 steps", ExitCode::kBadConfig);
}

/// Checks that evaluations during the run have data.
void check_holds_out(const RunConfig& config, const std::string& file) {
  if (config.data.held_out > 0 || config.train.evaluate_every == 0) return;
  const std::string key = config.train.patience > 0     ? "train.patience"
                          : config.checkpoint.keep_best ? "checkpoint.keep_best"
                                                        : "train.evaluate_every";
  throw UserError(file + ": " + key + " is set and data.held_out is 0",
                  "evaluations during the run are of the data that is held out, and there is none",
                  "set data.held_out, such as to 0.1, or remove " + key, ExitCode::kBadConfig);
}

/// Checks that a batch is given either for the whole step or for each data-parallel rank.
void check_one_batch(const ConfigTable& table) {
  if (!table.has("batch") || !table.has("batch_per_rank")) return;
  throw UserError(table.file() + ": train.batch and train.batch_per_rank are both set",
                  "train.batch is the rows of a step over all ranks, train.batch_per_rank those of "
                  "each data-parallel rank",
                  "keep train.batch for the same training under every plan, or "
                  "train.batch_per_rank for a batch that grows with the ranks",
                  ExitCode::kBadConfig);
}

/// Scaling by other numbers would round gradients.
void check_power_of_two(const ConfigTable& table, double scale) {
  int exponent = 0;
  if (std::frexp(scale, &exponent) == 0.5) return;
  throw UserError(table.file() + ": train.loss_scale is " + double_text(scale),
                  "gradients are divided by it, which is exact for a power of two alone",
                  "use a power of two, such as 65536", ExitCode::kBadConfig);
}

void check_gradients(const ConfigTable& table, const Precision& precision) {
  if (precision.gradients == DType::kF32 || precision.gradients == precision.dtype) return;
  const std::string products(to_text(precision.dtype)), gradients(to_text(precision.gradients));
  throw UserError(
      table.file() + ": train.gradient_precision is \"" + gradients +
          "\", and train.precision is \"" + products + "\"",
      "ranks send gradients of parameters in f32 or in the type of the products that make "
      "them",
      precision.dtype == DType::kF32
          ? "set train.precision to \"" + gradients + "\", too, or remove train.gradient_precision"
          : "set train.gradient_precision to \"f32\" or \"" + products + "\"",
      ExitCode::kBadConfig);
}

template <typename Config>
void read_keys(ConfigTable& table, const std::vector<SettingKey<Config>>& keys, Config& config) {
  for (const SettingKey<Config>& key : keys) read_key(table, key, config);
}

TrainConfig read_train(ConfigTable table) {
  TrainConfig train;
  check_one_batch(table);
  read_keys(table, train_keys(), train);
  check_gradients(table, train.precision);
  check_power_of_two(table, train.precision.scale.initial);
  check_evaluates(table, train.patience > 0, "train.patience", train.evaluate_every);
  table.finish();
  return train;
}

OptimizerConfig read_optimizer(ConfigTable table, int64_t steps) {
  OptimizerConfig optimizer;
  read_keys(table, optimizer_keys(), optimizer);
  if (optimizer.kind != OptimizerKind::kMuon && !optimizer.adam.empty())
    throw UserError(table.file() + ": optimizer.adam is set and optimizer.kind is \"" +
                        std::string(to_text(optimizer.kind)) + "\"",
                    "it names parameters that muon updates as adamw does",
                    "remove it, or write kind = \"muon\"", ExitCode::kBadConfig);
  optimizer.schedule.steps = steps;
  table.finish();
  return optimizer;
}

CheckpointConfig read_checkpoint(ConfigTable table, const TrainConfig& train) {
  CheckpointConfig checkpoint;
  read_keys(table, checkpoint_keys(), checkpoint);
  check_evaluates(table, checkpoint.keep_best, "checkpoint.keep_best", train.evaluate_every);
  table.finish();
  return checkpoint;
}

/// [parallel] is a plan without its stamps, mesh = {dp = 2, tp = 2} and [[parallel.marks]], or a
/// preset, dp = 2 and tp = 2.
void read_parallel(const Document* table, const std::string& file, std::optional<int> ranks,
                   ConfigFile& read) {
  if (!table) return;
  const std::string origin = file + " [parallel]";
  if (has_degrees(*table)) {
    read.preset = parse_preset(*table, origin);
    return;
  }
  read.plan = parse_plan(*table, origin, {.ranks = ranks, .other_keys = degree_keys()});
  read.plan->name = "config";
}

/// Sets `key = value`, where key is a dotted path, and returns the key.
std::string override_key(Document& document, const std::string& set) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UserError("--set " + set + " is not key=value",
                    "an override names a key of the configuration and its value",
                    "write --set train.steps=10", ExitCode::kUsage);
  const std::string value(trim(std::string_view(set).substr(equals + 1)));
  Document parsed;
  try {
    parsed = *parse_toml("value = " + value, "--set").find("value");
  } catch (const UserError&) {
    parsed = value;  // a text without quotes
  }
  const std::string path(trim(std::string_view(set).substr(0, equals)));
  Document* place = &document;
  for (const std::string& key : split_text(path, '.')) {
    if (!place->is_table() && !place->is_null())
      throw UserError("--set " + set + " goes into a value",
                      "a part of the key before '" + key + "' is not a table",
                      "use a key such as train.steps", ExitCode::kBadConfig);
    place = &(*place)[key];
  }
  *place = std::move(parsed);
  return path;
}

ConfigFile parse_config(Document document, const std::string& file,
                        const std::vector<std::string>& sets, std::optional<int> ranks = {},
                        std::vector<ReadKey>* keys = nullptr) {
  ConfigOrigin origin(file);
  for (const std::string& set : sets) origin.overridden.insert(override_key(document, set));
  ConfigTable table(&document, "", origin, keys);
  refuse_key_aliases(document, origin);
  ConfigFile read;
  RunConfig& config = read.run;
  config.file = file;
  config.model = read_model_config(table.table("model"));
  const bool sizes_follow_data = config.model.given_vocabulary == 0 && !config.model.graph;
  config.data = read_data_config(table.table("data"), sizes_follow_data);
  config.train = read_train(table.table("train"));
  config.optimizer = read_optimizer(table.table("optimizer"), config.train.steps);
  config.checkpoint = read_checkpoint(table.table("checkpoint"), config.train);
  read_parallel(table.raw({"parallel", "A plan", "{mesh = {dp = 2, tp = 2}}"}), file, ranks, read);
  table.finish();
  check_holds_out(config, file);
  return read;
}

/// Reads the sizes of resolved_settings that the data determines.
void read_sizes(const Document& model, ModelConfig& sizes) {
  if (const Document* vocabulary = model.find("vocabulary"); vocabulary && vocabulary->is_int())
    sizes.vocabulary = vocabulary->as_int();
  if (const Document* classes = model.find("classes"); classes && classes->is_int())
    sizes.classes = classes->as_int();
  const Document* image = model.find("image");
  if (!image || !image->is_list() || image->as_list().size() != 3) return;
  const Document::List& extents = image->as_list();
  if (std::ranges::all_of(extents, [](const Document& extent) { return extent.is_int(); }))
    sizes.image = {extents[0].as_int(), extents[1].as_int(), extents[2].as_int()};
}

}  // namespace

ConfigFile read_config_file(const std::filesystem::path& file, const std::vector<std::string>& sets,
                            std::optional<int> ranks) {
  return parse_config(parse_toml(read_file(file), file.string()), file.string(), sets, ranks);
}

ConfigFile read_config_settings(Document settings, const std::string& origin,
                                const std::vector<std::string>& sets, std::optional<int> ranks) {
  return parse_config(std::move(settings), origin, sets, ranks);
}

RunConfig read_config(const std::filesystem::path& file, const std::vector<std::string>& sets) {
  return read_config_file(file, sets).run;
}

void check(const TrainingSettings& settings) {
  const int64_t schedule_steps = settings.optimizer.schedule.steps;
  if (schedule_steps < 0)
    refuse_config("Schedule::steps is " + std::to_string(schedule_steps),
                  "a rate falls in a number of steps of at least 0",
                  "give one, or 0 for those of the run");
  TrainingSettings given = settings;
  given.train.seed = 0;
  if (given.train.evaluate_every == 0) {
    given.train.patience = std::min<int64_t>(given.train.patience, 0);
    given.checkpoint.keep_best = false;
  }
  // The reader of configurations has the rules.
  const Document document = resolved_settings(given);
  ConfigTable table(&document, "", ConfigOrigin("the training settings"));
  const TrainConfig train = read_train(table.table("train"));
  read_optimizer(table.table("optimizer"), train.steps);
  read_checkpoint(table.table("checkpoint"), train);
}

std::vector<ReadKey> keys_of(const Document& settings) {
  std::vector<ReadKey> keys;
  parse_config(settings, "the settings", {}, {}, &keys);
  return keys;
}

RunConfig read_settings(const Document& settings, const std::string& origin,
                        const std::vector<std::string>& sets) {
  Document document = settings;
  ModelConfig sizes;  // these follow from the data, so a configuration does not have them
  if (Document* model = document.find("model"); model && model->is_table()) {
    const Document given = *model;
    Document::Table table = model->as_table();
    std::erase_if(table, [](const auto& entry) {
      return entry.first == "vocabulary" || entry.first == "classes" || entry.first == "image";
    });
    *model = std::move(table);
    read_sizes(given, sizes);
  }
  RunConfig config = parse_config(std::move(document), origin, sets).run;
  if (config.model.graph) return config;
  config.model.vocabulary = sizes.vocabulary;
  config.model.classes = sizes.classes;
  config.model.image = sizes.image;
  return config;
}

}  // namespace tessera
