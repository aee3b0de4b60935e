#include "tools/cli/internal/commands/inspect.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/import/import.h"
#include "frontend/models/model_file.h"
#include "tools/cli/internal/print/cluster_text.h"
#include "tools/cli/internal/print/inspect_checkpoint.h"
#include "tools/cli/internal/print/inspect_run.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/session.h"
#include "training/data/array_files.h"
#include "training/data/text_files.h"

namespace tessera {
namespace {

/// The result of inspect: the text for readers and the object for scripts.
struct Findings {
  std::string text;
  Document document;
};

std::string mark_kind(const Mark& mark) {
  return std::string(to_text(mark.kind));
}

std::string stamp_text(const Plan& plan) {
  if (!plan.fingerprint)
    return "stamp  none: written by hand, it fits every model that has the names of its marks\n";
  return fmt::format("stamp  graph {}, {}, by tessera {}\n", plan.fingerprint->graph,
                     counted(std::ssize(plan.fingerprint->parameters), "parameter"),
                     plan.fingerprint->version);
}

std::string schedule_line(const Plan& plan) {
  if (plan.micro_batches == 1) return "steps  whole: one micro-batch\n";
  return fmt::format("steps  {}, schedule {}\n", counted(plan.micro_batches, "micro-batch"),
                     to_text(plan.schedule));
}

/// What places the tensors of a plan.
std::string placements_text(const Plan& plan, const TextTable& marks) {
  if (!marks.empty()) return "\n" + marks.text();
  if (!plan.shardings) return "marks  none: everything is whole on every rank\n";
  std::vector<std::string> programs;
  for (const auto& [name, section] : plan.shardings->sections) programs.push_back(name);
  return "shardings of every op of " + join(programs, ", ") + "\n";
}

Findings inspect_plan(const std::string& file) {
  const Plan plan = read_plan(file);
  const bool has_stages = plan.meshes.size() > 1;
  TextTable marks({"mark", "name or pattern", "placement", has_stages ? "mesh" : ""}, "llll");
  Findings findings;
  findings.document["kind"] = "plan";
  findings.document["mesh"] = plan.meshes.empty() ? "" : mesh_text(plan);
  findings.document["ranks"] = plan.rank_count();
  findings.document["micro_batches"] = plan.micro_batches;
  findings.document["schedule"] =
      plan.micro_batches > 1 ? Document(std::string(to_text(plan.schedule))) : Document();
  findings.document["marks"] = Document::List{};
  for (const Mark& mark : plan.marks) {
    marks.add({mark_kind(mark), mark.pattern, mark.placement, mark.mesh});
    Document written =
        Document::Table{{mark_kind(mark), mark.pattern}, {"placement", mark.placement}};
    if (!mark.mesh.empty()) written["mesh"] = mark.mesh;
    findings.document["marks"].append(std::move(written));
  }
  if (plan.shardings) findings.document["shardings"] = to_document(*plan.shardings);
  findings.document["fingerprint"] =
      plan.fingerprint ? Document(plan.fingerprint->graph) : Document();
  findings.text =
      fmt::format("{} is a plan\n\nmesh   {}\nranks  {}\n", file,
                  plan.meshes.empty() ? "none: one process" : mesh_text(plan), plan.rank_count()) +
      schedule_line(plan) + stamp_text(plan) + placements_text(plan, marks);
  return findings;
}

/// Bytes of a text that are examined: they and their tokens are in memory.
constexpr int64_t kInspected = 64 << 20;

/// The tokens, the vocabulary and the baseline of a text.
Document text_facts(const std::string& text, const std::string& tokens) {
  const Vocabulary vocabulary =
      tokens == "bytes" ? Vocabulary::bytes() : Vocabulary::characters_of(text);
  const std::vector<int32_t> list = vocabulary.encode(text);
  Document facts;
  facts["tokens"] = std::ssize(list);
  facts["vocabulary"] = vocabulary.size();
  facts["bigram_entropy"] = bigram_entropy(list, vocabulary.size());
  return facts;
}

std::string text_line(const std::string& name, const Document& facts) {
  return fmt::format("  {:<10}  {} tokens, vocabulary {}, bigram entropy {:.4f} nats a token\n",
                     name, grouped(facts.find("tokens")->as_int()),
                     facts.find("vocabulary")->as_int(), facts.find("bigram_entropy")->as_double());
}

Findings inspect_text(const std::string& file) {
  const TextFiles files({file}, kInspected);
  const std::string text = files.text();
  Findings findings;
  findings.document["kind"] = "text";
  findings.document["size"] = files.size() + files.left_out();
  findings.document["examined"] = files.size();
  findings.text = fmt::format(
      "{} is text: {} bytes{}\n\n", file, grouped(files.size() + files.left_out()),
      files.left_out() > 0 ? "; of the first " + grouped(files.size()) + " of them:" : "");
  for (const char* tokens : {"bytes", "characters"}) {
    try {
      findings.document[tokens] = text_facts(text, tokens);
      findings.text += text_line(tokens, *findings.document.find(tokens));
    } catch (const UserError& error) {  // not UTF-8: it has no characters
      findings.document[tokens] = Document();
      findings.text += fmt::format("  {:<10}  not possible: {}\n", tokens, error.what_happened());
    }
  }
  return findings;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

Findings inspect_array(const std::string& file) {
  const StoredArray array = read_npy(file);
  const std::string type(to_text(array.type()));
  Findings findings;
  findings.document["kind"] = "array";
  findings.document["type"] = type;
  findings.document["shape"] = Document::List(array.shape().begin(), array.shape().end());
  findings.text = fmt::format("{} is an array: {}{}\n", file, type, shape_text(array.shape()));
  return findings;
}

std::string settings_text(const Document& settings) {
  TextTable table({"setting", "value"}, "ll");
  for (const auto& [name, group] : settings.as_table())
    for (const auto& [key, value] : group.as_table())
      table.add({name + "." + key, excerpt(to_json(value))});
  return table.text();
}

/// Are they the resolved settings of a run, config.json of its folder?
bool is_settings(const Document& document) {
  if (!document.is_table()) return false;
  for (const char* group : {"model", "data", "train"})
    if (!document.find(group) || !document.find(group)->is_table()) return false;
  return true;
}

Findings inspect_json(const std::string& file) {
  const Document settings = parse_commented_json(read_file(file), file);
  if (!is_settings(settings)) return inspect_plan(file);
  Findings findings;
  findings.document["kind"] = "settings";
  findings.document["settings"] = settings;
  findings.text = fmt::format("{} has the settings of a run\n\n{}", file, settings_text(settings));
  return findings;
}

Findings inspect_config(const InspectCommand& command) {
  Session session = open_session({.file = command.file, .overrides = command.overrides});
  // As plan, simulate and explain, it needs no data where the sizes are given.
  std::shared_ptr<const RunData> data;
  if (session.config.model.given_vocabulary > 0)
    set_sizes(session.config.model, session.config.data);
  else
    data = load_data_of(session.config);
  const Graph graph = training_graph(session.config);
  const int64_t parameters = parameter_count(graph);
  Findings findings;
  findings.document["kind"] = "config";
  findings.document["settings"] = resolved_settings(session.config);
  findings.document["parameters"] = parameters;
  findings.document["ops"] = std::ssize(graph.ops());
  findings.document["plan"] = plan_summary(session.plan);
  findings.text = fmt::format("{} is a configuration\n\n{}\n", command.file,
                              settings_text(*findings.document.find("settings")));
  findings.text += fmt::format("model  {} parameters; the training step has {} ops\n",
                               grouped(parameters), grouped(std::ssize(graph.ops())));
  if (data) {
    findings.document[data->unit == "token" ? "vocabulary" : "classes"] = data->classes;
    findings.document["train_" + data->unit + "s"] = data->train_units;
    findings.document["held_out_" + data->unit + "s"] = data->held_out_units;
    add_bar(findings.document, *data);
    findings.text += fmt::format(
        "data   {} {}s to train on, {} held out, {} {}{}\n", grouped(data->train_units), data->unit,
        grouped(data->held_out_units), data->unit == "token" ? "vocabulary" : "classes",
        data->classes, baseline_text(*data));
    findings.document["left_out_bytes"] = data->left_out_bytes;
    findings.text += left_out_note(session.config.data, *data);
  }
  findings.text += "run    under " + plan_summary(session.plan) + "\n";
  return findings;
}

Findings findings_of(const Cluster& cluster) {
  return {cluster_text(cluster), cluster_document(cluster)};
}

/// So many bytes that the formats of clusters can be told apart; "" of a pipe, which could not be
/// read again.
std::string beginning_of(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) return "";
  std::string text(64 << 10, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), std::ssize(text));
  text.resize(in.gcount());
  return text;
}

/// Whether a file is a cluster. Other files may be large: only their beginning is read.
bool is_cluster(const std::filesystem::path& file) {
  if (file.extension() == ".toml" || file.extension() == ".json")
    return is_cluster_text(read_file(file), file.string());
  return import_format(beginning_of(file)).has_value();
}

Findings inspect_any(const InspectCommand& command) {
  const std::filesystem::path file(command.file);
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) {
    // "8xh100": what is wrong with a line is said, not that there is no such file.
    const size_t digits = command.file.find_first_not_of("0123456789");
    const bool is_line = digits != 0 && digits != std::string::npos && command.file[digits] == 'x';
    if (is_line || names_cluster(command.file)) return findings_of(cluster_of(command.file));
    read_file(file);  // throws the error of a missing file
  }
  if (is_stored(file)) {
    Document found = stored_document(file);
    const RunFacts run = run_facts(file);
    if (!run.document.is_null()) found["run"] = run.document;
    return {stored_text(file, found, run.text), found};
  }
  const bool is_folder = std::filesystem::is_directory(file, unknown);
  if (!is_folder && is_cluster(file)) return findings_of(read_cluster(file));
  if (!is_folder && file.extension() == ".json") return inspect_json(command.file);
  if (!is_folder && file.extension() == ".npy") return inspect_array(command.file);
  if (!is_folder && (file.extension() == ".toml" || file.extension() == kGraphExtension))
    return inspect_config(command);
  return inspect_text(command.file);
}

}  // namespace

void InspectCommand::describe(OptionParser& parser) {
  parser.argument(
      "FILE",
      "A plan.json, a CONFIG.toml, a cluster or one line that describes it, a checkpoint or a run "
      "or its config.json, a safetensors or npy file, or text",
      file);
  add_options(parser, overrides);
  add_options(parser, output);
}

ExitCode InspectCommand::run(Processes&) {
  const Findings findings = inspect_any(*this);
  print_result(output, findings.document, findings.text);
  return ExitCode::kDone;
}

}  // namespace tessera
