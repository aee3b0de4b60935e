#include "training/engine/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/finite.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text/text.h"
#include "ir/models/lora.h"
#include "training/checkpoint/joint_load.h"
#include "training/checkpoint/json_fields.h"
#include "training/checkpoint/truncate_list.h"
#include "training/config/setting_changes.h"
#include "training/engine/checkpoints/checkpoint_content.h"
#include "training/engine/internal/steps/step_checks.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// The parts of state.json.
struct StoredState {
  int64_t step = 0;
  int64_t epoch = 0, batch_of_epoch = 0;
  DataPosition position;       // the parts of the data; the step is not set
  std::optional<double> rate;  // that the program had set in place of the schedule
  Document::Table order;
  std::string plan;
  Document settings;
  std::optional<Vocabulary> vocabulary;
};

std::optional<Vocabulary> read_vocabulary(const Document& symbols, const std::string& file) {
  if (symbols.is_null()) return std::nullopt;
  std::vector<std::string> texts;
  if (symbols.is_list())
    for (const Document& symbol : symbols.as_list())
      if (symbol.is_string()) texts.push_back(symbol.as_string());
  if (texts.empty() || texts.size() != symbols.as_list().size())
    throw bad_data("'" + file + "': 'vocabulary' is " + kind_of(symbols),
                   "it is a list of characters, or null for bytes", "use another checkpoint");
  return Vocabulary::of_symbols(std::move(texts));
}

/// "parts" is the number of equal parts, or the list of the weights of parts.
void read_parts(JsonFields& data, DataPosition& position) {
  if (!data.any("parts").is_list()) {
    position.parts = std::max<int64_t>(1, data.count("parts"));
    return;
  }
  for (int64_t weight : data.counts("parts"))
    position.part_weights.push_back(std::clamp<int64_t>(weight, 1, kMaxPartWeight));
  position.parts = std::max<int64_t>(1, std::ssize(position.part_weights));
}

double read_rate(const Document& rate, const std::string& file) {
  if (!rate.is_number() || !std::isfinite(rate.as_double()) || rate.as_double() < 0)
    throw bad_data("'" + file + "': 'learning_rate' is " + to_json(rate),
                   "it is a number of at least 0", "use another checkpoint");
  return rate.as_double();
}

StoredState read_state(const Checkpoint& checkpoint) {
  const std::string file = (checkpoint.folder() / "state.json").string();
  StoredState state;
  JsonFields fields(checkpoint.state(), file, "the state");
  state.step = fields.count("step");
  JsonFields data(fields.any("data"), file, "data");
  state.epoch = data.count("epoch");
  state.batch_of_epoch = data.count("step_of_epoch");
  read_parts(data, state.position);
  state.order = data.table("order");
  data.finish();
  if (const Document* rate = fields.find("learning_rate")) state.rate = read_rate(*rate, file);
  state.plan = fields.text("plan");
  state.settings = fields.any("settings");
  state.vocabulary = read_vocabulary(fields.any("vocabulary"), file);
  fields.finish();
  return state;
}

void check_data(const Engine& engine, const StoredState& state, const fs::path& folder) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : order_of_data(engine)) {
    const auto stored = std::find_if(state.order.begin(), state.order.end(),
                                     [&](const auto& entry) { return entry.first == key; });
    const std::string before = stored == state.order.end() ? "missing" : to_json(stored->second);
    if (before != to_json(value))
      differences.push_back(key + " was " + before + " and is " + to_json(value));
  }
  if (differences.empty()) return;
  const auto has = [&](std::string_view key) {
    return std::ranges::any_of(differences,
                               [&](const std::string& text) { return text.starts_with(key); });
  };
  const char* subject = has("batch was")                        ? "the batch is"
                        : has("text was") || has("samples was") ? "the data is"
                                                                : "the order of the data is";
  throw bad_data(
      std::string(subject) + " not that of the checkpoint '" + folder.string() + "'",
      join(differences, "; "),
      "resume with the text and the settings of the stored run: its next batches follow from them");
}

/// Refuses variables that are not the stored ones; the settings that changed explain it.
void check_variables(const Engine& engine, const Checkpoint& checkpoint, const Document& stored,
                     const std::map<std::string, TensorType>& variables) {
  try {
    checkpoint.require(variables);
  } catch (const UserError& error) {
    const std::vector<std::string> changes =
        changed_variable_settings(stored, resolved_settings(engine.config()));
    if (changes.empty()) throw;
    throw bad_data(error.what_happened() + ": " + join(truncate_list(changes, 5), "; "),
                   error.why(), error.fix());
  }
}

/// Refuses a folder without a good checkpoint.
///   throws  UserError: 65 with the defect of the last checkpoint when all are damaged, 66 when
///           there are none
[[noreturn]] void refuse_folder(const CheckpointFolder& folder, const fs::path& path) {
  const std::vector<int64_t> steps = folder.steps();
  if (steps.empty())
    throw UserError(
        "there is no checkpoint in '" + path.string() + "'",
        "a run writes its first one when checkpoint.every steps are done, or at its end",
        "give a checkpoint, a folder of checkpoints, or the --out folder of a run that wrote one",
        ExitCode::kMissingInput);
  throw bad_data("no checkpoint in '" + path.string() + "' is complete",
                 folder.damage(steps.back(), false),
                 "restore the file from a copy, or start the run anew");
}

std::string names_of(const std::vector<int64_t>& steps) {
  std::vector<std::string> names;
  for (int64_t step : steps) names.push_back(checkpoint_name(step));
  return join(names, ", ");
}

/// Refuses a path where nothing is, with the checkpoints that are beside it.
///   throws  UserError (66)
[[noreturn]] void refuse_missing(FileSystem& files, const fs::path& path) {
  std::error_code unknown;
  if (fs::is_regular_file(path, unknown))
    throw UserError("'" + path.string() + "' is a file and no checkpoint",
                    "a checkpoint is a folder, and files of safetensors, as tessera export writes "
                    "them, are not read",
                    "give the --out folder of a run, or a folder such as "
                    "RUN/checkpoints/step-00000100",
                    ExitCode::kMissingInput);
  const fs::path whole = (path / "").parent_path(), parent = folder_of(whole);
  if (!step_of_name(whole.filename().string()))
    throw cannot_read_error(path, "there is no such folder");
  for (const fs::path& place : {parent, parent / "checkpoints"}) {
    const std::vector<int64_t> steps = CheckpointFolder(files, place).steps();
    if (steps.empty()) continue;
    throw UserError("there is no checkpoint '" + path.string() + "'",
                    "'" + place.string() + "' has " + names_of(steps) +
                        "; a run removes older ones than the newest checkpoint.keep_last",
                    "use one of these; checkpoint.keep_last = 0 keeps all",
                    ExitCode::kMissingInput);
  }
  throw cannot_read_error(path, "there is no such folder");
}

}  // namespace

void save_checkpoint(Engine& engine, CheckpointFolder& folder, const Retention& retention) {
  check_none_in_flight(engine.runtime().steps_in_flight(), "save_checkpoint()");
  const int64_t step = engine.step_count();
  const int ranks = engine.runtime().ranks();
  const auto variables = variables_of(engine.graph());
  Runtime& runtime = engine.runtime();
  runtime.on_all_processes([&] {
    if (runtime.is_leader()) folder.begin(step);
  });
  runtime.on_every_rank([&](Rank rank, std::span<const VariablePart> held) {
    folder.store(step, rank, ranks, owned_parts(variables, held));
  });
  runtime.on_all_processes([&] {
    if (!runtime.is_leader()) return;
    const CheckpointDocuments documents = documents_of(engine);
    folder.commit(step, ranks, documents.state, documents.plan, retention);
  });
}

/// A run that diverged may have stored it by an earlier version, which did not check.
void check_is_finite(const Checkpoint& checkpoint, const VariablePart& part) {
  const size_t bytes = element_count(part.box.shape()) * size_of(part.whole.dtype);
  if (!all_finite(part.whole.dtype, {part.data, bytes}))
    checkpoint.refuse("cannot be used: '" + part.name + "' has values that are not finite",
                      "the run that stored it had diverged");
}

/// Processes that look for the latest checkpoint find different ones while a run stores new ones.
void check_is_that_of_all(Engine& engine, const Checkpoint& checkpoint) {
  const uint64_t mine = stable_hash(to_json(checkpoint.state()) + to_json(checkpoint.plan()));
  if (engine.runtime().agree_on(mine)) return;
  throw UserError("the processes opened different checkpoints of one run",
                  "this process opened '" + checkpoint.folder().string() +
                      "'; a run that goes on stored a new one in between",
                  "name one checkpoint, or wait for the end of that run");
}

bool is_adapter(const std::string& name) {
  return std::ranges::any_of(adapter_patterns(),
                             [&](const std::string& pattern) { return matches(pattern, name); });
}

/// Refuses a checkpoint without one of the parameters.
void check_has_parameters(const Checkpoint& checkpoint,
                          const std::map<std::string, TensorType>& wanted) {
  for (const auto& [name, type] : wanted) {
    const auto stored = checkpoint.index().tensors.find(name);
    if (stored != checkpoint.index().tensors.end() && stored->second.whole == type) continue;
    throw bad_data("the checkpoint '" + checkpoint.folder().string() + "' has no parameter '" +
                       name + "' of the type " + to_text(type),
                   stored == checkpoint.index().tensors.end()
                       ? "another model was stored"
                       : "its own is " + to_text(stored->second.whole),
                   "use the model of the checkpoint: `tessera inspect` prints its settings");
  }
}

void restore(Engine& engine, const Checkpoint& checkpoint) {
  check_is_that_of_all(engine, checkpoint);
  const StoredState state = read_state(checkpoint);
  const auto variables = variables_of(engine.graph());
  check_variables(engine, checkpoint, state.settings, variables);
  if (engine.purpose() == Purpose::kTrain) check_data(engine, state, checkpoint.folder());
  JointLoad load(checkpoint);
  engine.runtime().on_every_rank([&](Rank, std::span<const VariablePart> held) {
    for (const VariablePart& part : held)
      if (variables.contains(part.name))
        load.load_box(part.name, part.box, part.data, part.first_holder);
  });
  engine.runtime().on_all_processes([&] { load.finish(); });
  engine.runtime().on_every_rank([&](Rank, std::span<const VariablePart> held) {
    for (const VariablePart& part : held)
      if (variables.contains(part.name)) check_is_finite(checkpoint, part);
  });
  for (const std::string& name : engine.runtime().variable_names()) engine.runtime().mark_set(name);
  DataPosition position = state.position;
  position.step = state.step;
  engine.set_position(position);
  engine.set_learning_rate(state.rate);
  if (engine.purpose() != Purpose::kTrain) return;
  // The length of an epoch may depend on the parts.
  position.batch = state.epoch * engine.batches().steps_per_epoch() + state.batch_of_epoch;
  engine.set_position(position);
}

void load_parameters(Engine& engine, const Checkpoint& checkpoint) {
  check_is_that_of_all(engine, checkpoint);
  std::map<std::string, TensorType> wanted;
  for (const Variable& variable : engine.graph().variables()) {
    if (!variable.trainable) continue;
    const Value& value = engine.graph().value(variable.value);
    if (!checkpoint.index().tensors.contains(value.name) && is_adapter(value.name)) continue;
    wanted.emplace(value.name, value.type);
  }
  check_has_parameters(checkpoint, wanted);
  JointLoad load(checkpoint);
  engine.runtime().on_every_rank([&](Rank, std::span<const VariablePart> held) {
    for (const VariablePart& part : held)
      if (wanted.contains(part.name))
        load.load_box(part.name, part.box, part.data, part.first_holder);
  });
  engine.runtime().on_all_processes([&] { load.finish(); });
  engine.runtime().on_every_rank([&](Rank, std::span<const VariablePart> held) {
    for (const VariablePart& part : held)
      if (wanted.contains(part.name)) check_is_finite(checkpoint, part);
  });
  for (const auto& [name, type] : wanted) engine.runtime().mark_set(name);
}

StoredRun stored_run(const Checkpoint& checkpoint, const std::vector<std::string>& sets) {
  StoredState state = read_state(checkpoint);
  if (!state.settings.find("model"))
    throw bad_data("the checkpoint '" + checkpoint.folder().string() + "' has no [model]",
                   "a program stored it, with a network of its own",
                   "load it by that program, through restore() of training/engine/checkpointing.h");
  StoredRun run;
  run.config = read_settings(state.settings, (checkpoint.folder() / "state.json").string(), sets);
  run.plan = parse_plan(checkpoint.plan(), (checkpoint.folder() / "plan.json").string());
  run.plan.name = state.plan;
  // Overrides may change the graph: another batch. What does not fit the stored variables or the
  // stored order of the data is named when they are loaded.
  if (run.plan.fingerprint) run.plan.fingerprint->graph.clear();
  run.vocabulary = std::move(state.vocabulary);
  return run;
}

fs::path find_checkpoint(FileSystem& files, const fs::path& path) {
  if (!files.is_folder(path)) refuse_missing(files, path);
  const std::vector<std::string> names = files.list(path);
  const bool is_checkpoint =
      std::find(names.begin(), names.end(), "index.json") != names.end() ||
      step_of_name((path / "").parent_path().filename().string()).has_value();
  if (is_checkpoint) return path;
  const fs::path place = files.is_folder(path / "checkpoints") ? path / "checkpoints" : path;
  const CheckpointFolder folder(files, place);
  const std::optional<int64_t> latest = folder.latest();
  if (!latest) refuse_folder(folder, place);
  for (int64_t step : folder.steps())
    if (const std::string damage = step > *latest ? folder.damage(step, false) : "";
        !damage.empty())
      log_warning(checkpoint_name(step) + " is damaged and " + checkpoint_name(*latest) +
                  " is used: " + damage);
  const std::optional<int64_t> good = folder.latest_good();
  if (good != latest)
    log_warning(fmt::format(
        "{} is used, the last one before losses that were far outside of those before them; to use "
        "the newest one, name it: {}",
        checkpoint_name(*good), folder.path_of(*latest).string()));
  return folder.path_of(good.value_or(*latest));
}

}  // namespace tessera
