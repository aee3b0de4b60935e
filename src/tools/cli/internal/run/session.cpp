#include "tools/cli/internal/run/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/sources.h"
#include "cluster/cost/cost_file.h"
#include "planner/presets/presets.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/run/automatic_plan.h"
#include "tools/cli/internal/run/named_model.h"
#include "training/engine/data/batch_rule.h"

namespace tessera {

namespace {

/// Of a plan of the configuration or of a run: `preset`, or else `plan`.
Plan configured_plan(const ConfigFile& file, const PlanOptions& options,
                     const std::function<Graph()>& graph) {
  return file.preset ? preset_plan(*file.preset, graph(), rank_count(options))
                     : file.plan.value_or(serial_plan());
}

/// Is a plan to be found: asked for, or for several ranks when nothing says which?
bool finds_plan(const PlanOptions& options, bool is_stored, const ConfigFile& file) {
  if (options.plan) return options.is_automatic();
  const bool is_named = is_stored || file.preset || file.plan;
  return !is_named && rank_count(options).value_or(1) > 1;
}

/// Reads a plan file; a name that looks like a preset is refused with the form of presets.
Plan named_plan(const std::string& file, std::optional<int> ranks) {
  const std::string preset = path_exists(file) ? "" : preset_of_words(file);
  if (!preset.empty())
    throw UserError("there is no plan file '" + file + "'",
                    "a preset has an equals sign between each key and its degree",
                    "write --plan " + preset, ExitCode::kMissingInput);
  if (!path_exists(file) && file.find_first_of("./") == std::string::npos)
    throw UserError("there is no plan file '" + file + "'",
                    "and no preset of this name: a preset has keys with their degrees",
                    "write --plan dp=2,tp=2 or another preset, auto, serial, or the path of a plan "
                    "file",
                    ExitCode::kMissingInput);
  return read_plan(file, ranks);
}

Plan found_plan(const ConfigFile& file, const ConfigOptions& options) {
  const auto ranks = rank_count(options.plan);
  return automatic_plan(file, ranks ? *ranks : default_ranks(options.automatic), options.automatic);
}

/// The training graph of a configuration whose sizes the data gives.
Graph sized_graph(RunConfig config) {
  set_sizes(config.model, config.data);
  return training_graph(config);
}

}  // namespace

Plan chosen_plan(const PlanOptions& options, const Plan& otherwise,
                 const std::function<Graph()>& graph) {
  const Plan plan = !options.plan               ? otherwise
                    : *options.plan == "serial" ? serial_plan()
                    : is_preset(*options.plan)
                        ? preset_plan(parse_preset(*options.plan), graph(), rank_count(options))
                        : named_plan(*options.plan, rank_count(options));
  if (options.ranks) check_ranks(plan, *options.ranks);
  return plan;
}

Session open_session(const ConfigOptions& options, const std::optional<Plan>& stored,
                     const PassOptions& passes) {
  Session session;
  const ConfigFile file =
      named_model(options.file, options.overrides.sets, rank_count(options.plan), options.batch);
  session.config = file.run;
  check_fits(session.config);
  const auto graph = [&] { return sized_graph(session.config); };
  tell(unrolled_note(session.config.model));
  const bool is_given = options.plan.plan || stored;
  session.plan = finds_plan(options.plan, stored.has_value(), file)
                     ? found_plan(file, options)
                     : chosen_plan(options.plan,
                                   is_given ? stored.value_or(Plan{})
                                            : configured_plan(file, options.plan, graph),
                                   graph);
  if (options.cost) session.plan.cost = read_cost_model(*options.cost);
  std::vector<std::string>& disabled = session.plan.disabled_passes;
  disabled.insert(disabled.end(), passes.disabled.begin(), passes.disabled.end());
  session.config = resolved_for(std::move(session.config), session.plan);
  return session;
}

void share_plans(ConfigOptions& options, Processes& processes, Seconds deadline) {
  options.plan.processes = processes.count();
  options.automatic.from_leader = [&processes, deadline](const auto& make) {
    return processes.from_leader(make, deadline);
  };
}

ConfigOptions with_steps(ConfigOptions options, const std::optional<int64_t>& steps) {
  if (steps) options.overrides.sets.push_back("train.steps=" + std::to_string(*steps));
  return options;
}

std::string unrolled_note(const ModelConfig& model) {
  const int64_t positions = model.context * model.layers;
  if ((model.kind != "lstm" && model.kind != "gru") || positions <= kUnrolledPositions) return "";
  return fmt::format(
      "note: a model of kind {} is unrolled: {} of {} have operations of their own, more than {}, "
      "so "
      "compiling takes long, about 50 ms and 3 MB for each on one core; a smaller model.context "
      "takes less\n",
      model.kind, counted(model.context, "position"), counted(model.layers, "layer"),
      kUnrolledPositions);
}

std::string other_cluster_note(const Plan& plan, const ClusterDescription& cluster,
                               const std::string& here, const std::string& then) {
  if (plan.cost.cluster.empty() || plan.cost.cluster == fingerprint(cluster)) return "";
  return "note: the plan was made for another cluster than " + here + then + "\n";
}

std::string left_out_note(const DataConfig& config, const RunData& data) {
  if (data.left_out_bytes == 0) return "";
  const Bytes left_out(data.left_out_bytes), all(config.max_bytes + data.left_out_bytes);
  return fmt::format("note: data.max_bytes = {} leaves out {} of {} of text\n",
                     grouped(config.max_bytes), to_text(left_out), to_text(all));
}

std::string evaluation_text(const Evaluation& evaluation, const RunData& data) {
  std::string count = grouped(evaluation.tokens) + " " + data.unit + "s";
  if (evaluation.tokens < data.held_out_units)
    count =
        fmt::format("{} of {} {}s ({})", grouped(evaluation.tokens), grouped(data.held_out_units),
                    data.unit, counted(evaluation.batches, "batch"));
  std::string text = fmt::format("{:.4f} on {}{}\n", evaluation.loss, count, baseline_text(data));
  if (const auto accuracy = evaluation.metric("accuracy"))
    text += fmt::format("                 accuracy {:.1f}%", 100 * *accuracy);
  if (data.unit == "token") text += fmt::format(", perplexity {:.2f}", perplexity(evaluation));
  if (evaluation.bytes > 0)
    text += fmt::format(", {:.3f} bits per byte", bits_per_byte(evaluation));
  if (const auto overlap = evaluation.metric("intersection_over_union"))
    text += fmt::format(", intersection over union {:.3f}", *overlap);
  return text + "\n";
}

void add_evaluation(Document& document, const std::optional<Evaluation>& evaluation,
                    const Network& network, const RunData& data) {
  for (const auto& [name, unit, value] : numbers_of(evaluation.value_or(Evaluation{}), network))
    document["val_" + name] = evaluation && value ? Document(*value) : Document();
  document["val_" + data.unit + "s"] = evaluation ? Document(evaluation->tokens) : Document();
  document["held_out_" + data.unit + "s"] = data.held_out_units;
}

void check_is_a_number(const Evaluation& evaluation) {
  if (std::isfinite(evaluation.loss)) return;
  throw UserError("the validation loss is not a number",
                  "the variables are so large that values leave the range of f32",
                  "go on from an earlier checkpoint with a lower optimizer.learning_rate, a longer "
                  "optimizer.warmup, or optimizer.clip_norm",
                  ExitCode::kDiverged);
}

std::string baseline_text(const RunData& data) {
  return data.baseline
             ? fmt::format("; the {} is {:.4f}", data.baseline->description, data.baseline->nats)
             : "";
}

void add_bar(Document& document, const RunData& data) {
  if (data.baseline) document[data.baseline->key] = data.baseline->nats;
}

std::string plan_summary(const Plan& plan) {
  if (plan.meshes.empty()) return "plan '" + plan.name + "', 1 rank";
  return "plan '" + plan.name + "' on mesh " + mesh_text(plan) + ", " +
         counted(plan.rank_count(), "rank");
}

void narrate(const OutputOptions& output, const std::string& text) {
  output.json ? tell(text) : print(text);
}

void print_result(const OutputOptions& output, const Document& json, const std::string& text) {
  print(output.json ? to_json(json, 2) + "\n" : text);
}

Document to_document(const std::vector<double>& numbers) {
  return Document::List(numbers.begin(), numbers.end());
}

}  // namespace tessera
