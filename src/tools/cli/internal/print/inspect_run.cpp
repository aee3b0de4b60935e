#include "tools/cli/internal/print/inspect_run.h"

#include <fmt/format.h>

#include <optional>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

std::optional<Document> read_document(const fs::path& file) {
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown)) return std::nullopt;
  return parse_json(read_own_file(file), file.string());
}

/// The folder with the files that say something of the run.
fs::path run_folder(const fs::path& path) {
  std::error_code unknown;
  if (path.filename() == "latest" && fs::is_regular_file(path, unknown))
    return path.parent_path() / std::string(trim(read_own_file(path)));
  return path;
}

/// "gpt: context 64, layers 2, width 128".
std::string model_text(const Document& model) {
  std::vector<std::string> sizes;
  for (const auto& [key, value] : model.as_table())
    if (value.is_int() && value.as_int() > 0)
      sizes.push_back(key + " " + std::to_string(value.as_int()));
  return model.find("kind")->as_string() + ": " + join(sizes, ", ");
}

/// "text of books, letters.txt"; "markov".
std::string data_text(const Document& data) {
  const std::string& kind = data.find("kind")->as_string();
  std::vector<std::string> files;
  if (const Document* path = data.find("path"))
    for (const Document& file : path->as_list()) files.push_back(file.as_string());
  if (const Document* images = data.find("images"); images && !images->as_string().empty())
    files.push_back(images->as_string());
  return files.empty() ? kind : kind + " of " + join(files, ", ");
}

/// The last values of the metrics of a run.
void add_metrics(const fs::path& file, Document& facts) {
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown)) return;
  for (const std::string& text : split_text(read_own_file(file), '\n')) {
    if (trim(text).empty()) continue;
    const Document line = parse_json(text, file.string());
    for (const char* key : {"step", "loss", "val_loss"})
      if (const Document* value = line.find(key)) facts[key] = *value;
  }
}

/// The checkpoint in the folder "best" of a run: the one with the least held-out loss.
void add_best(const fs::path& run, Document& facts) {
  const fs::path checkpoint = run_folder(run / "best" / "latest");
  const auto state = read_document(checkpoint / "state.json");
  if (!state) return;
  Document& best = facts["best"];
  best["checkpoint"] = checkpoint.string();
  best["step"] = *state->find("step");
  std::error_code unknown;
  const fs::path metrics = run / "metrics.jsonl";
  if (!fs::is_regular_file(metrics, unknown)) return;
  for (const std::string& text : split_text(read_own_file(metrics), '\n')) {
    if (trim(text).empty()) continue;
    const Document line = parse_json(text, metrics.string());
    const Document *step = line.find("step"), *loss = line.find("val_loss");
    if (step && loss && *step == best["step"]) best["val_loss"] = *loss;
  }
}

std::string number_text(const Document& facts, const std::string& key, const std::string& name) {
  const Document* value = facts.find(key);
  return value && value->is_number() ? fmt::format(", {} {:.4f}", name, value->as_double()) : "";
}

std::string text_of(const Document& facts) {
  std::string text = "model    " + facts.find("model")->as_string() + "\n";
  text += "data     " + facts.find("data")->as_string() + "\n";
  const Document* step = facts.find("step");
  text += fmt::format("steps    {} of {}{}{}\n", step ? step->as_int() : 0,
                      facts.find("steps")->as_int(), number_text(facts, "loss", "loss"),
                      number_text(facts, "val_loss", "validation loss"));
  if (const Document* best = facts.find("best"))
    text += fmt::format("best     {}: step {}{}\n", best->find("checkpoint")->as_string(),
                        best->find("step")->as_int(),
                        number_text(*best, "val_loss", "validation loss"));
  if (const Document* plan = facts.find("plan")) text += "plan     " + plan->as_string() + "\n";
  if (const Document* schedule = facts.find("schedule"))
    text += "         " + schedule->as_string() + "\n";
  return text;
}

}  // namespace

RunFacts run_facts(const fs::path& path) {
  const fs::path folder = run_folder(path);
  RunFacts facts;
  std::optional<Document> settings = read_document(folder / "config.json");
  std::string plan_name;
  if (const auto state = settings ? std::nullopt : read_document(folder / "state.json")) {
    settings = *state->find("settings");
    facts.document["step"] = *state->find("step");
    plan_name = state->find("plan")->as_string();
  } else if (const auto last =
                 read_document(run_folder(folder / "checkpoints" / "latest") / "state.json")) {
    plan_name = last->find("plan")->as_string();
  }
  // A program's own network has no model in its settings.
  if (!settings || !settings->find("model") || !settings->find("data")) return {};
  facts.document["model"] = model_text(*settings->find("model"));
  facts.document["data"] = data_text(*settings->find("data"));
  facts.document["steps"] = *settings->find("train")->find("steps");
  add_metrics(folder / "metrics.jsonl", facts.document);
  add_best(folder, facts.document);
  if (const auto stored = read_document(folder / "plan.json")) {
    Plan plan = parse_plan(*stored, (folder / "plan.json").string());
    plan.name = plan_name.empty() ? "plan" : plan_name;
    facts.document["plan"] = plan_summary(plan);
    if (plan.micro_batches > 1)
      facts.document["schedule"] = fmt::format("schedule {} of {}", to_text(plan.schedule),
                                               counted(plan.micro_batches, "micro-batch"));
  }
  facts.text = text_of(facts.document);
  return facts;
}

}  // namespace tessera
