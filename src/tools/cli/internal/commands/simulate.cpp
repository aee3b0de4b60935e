#include "tools/cli/internal/commands/simulate.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/sources.h"
#include "ir/models/family.h"
#include "ir/precision/precision.h"
#include "tools/cli/internal/print/predicted_and_measured.h"
#include "tools/cli/internal/print/prediction_text.h"
#include "tools/cli/internal/print/print.h"
#include "tools/cli/internal/print/runtime_text.h"
#include "tools/cli/internal/run/measured_run.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/predicted_run.h"
#include "training/engine/graphs.h"

namespace tessera {
namespace {

Session sized_session(const SimulateCommand& command) {
  Session session = open_session(command.config, {}, command.compilation);
  set_sizes(session.config.model, session.config.data);
  return session;
}

/// The decisions that the plan leaves to the compiler are taken by the prices of the cluster.
void set_cost(Plan& plan, const NamedCluster& cluster) {
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : plan.placed()) meshes.push_back(mesh.mesh);
  plan.cost = cost_of(deployment_of(plan, cluster), meshes);
  plan.cost.cluster = fingerprint(cluster.cluster->description());
}

/// A plan with what was predicted for it.
struct SimulatedPlan {
  Plan plan;
  Compiled compiled;
  PredictedRun run;
  std::optional<MeasuredRun> measured = {};

  std::string title() const { return plan_summary(plan) + ", on " + run.cluster_name; }
};

SimulatedPlan simulated(const SimulateCommand& command, const Workload& work, Plan plan,
                        const NamedCluster& machines) {
  check_fits(plan, work.graph);
  if (const std::string note = emulated_note(*machines.cluster, type_of_products(work.graph));
      !note.empty())
    tell("note: " + note + "\n");
  tell(other_cluster_note(plan, machines.cluster->description(), machines.name,
                          command.config.cost
                              ? "; its prices are those of --cost"
                              : "; its prices, its decisions and its step are estimated anew"));
  if (plan.mapping && plan.mapping->cluster != machines.name)
    tell("note: the mapping of the plan is for the cluster '" + plan.mapping->cluster +
         "'; here rank i is on device i\n");
  if (!command.config.cost) set_cost(plan, machines);
  CompileOptions options;
  options.verify_passes = command.compilation.verify;
  Compiled compiled = compile(work.graph, plan, options);
  PredictedRun run = predict_run(work, plan, compiled, machines);
  if (command.map_ranks) run = predict_mapped_run(work, plan, compiled, machines, std::move(run));
  return {std::move(plan), std::move(compiled), std::move(run)};
}

/// The steps of the folders, each of a run of the same model under the same plan.
void add_measured(const SimulateCommand& command, const Graph& graph,
                  std::vector<SimulatedPlan>& plans) {
  for (size_t i = 0; i < command.measured.size(); ++i) {
    const std::filesystem::path folder = command.measured[i];
    plans[i].measured = recorded_run(folder);
    const Plan measured = read_plan(folder / "plan.json");
    check_fits(measured, graph);
    const Plan& simulated = plans[i].plan;
    if (mesh_text(measured) == mesh_text(simulated) &&
        measured.micro_batches == simulated.micro_batches)
      continue;
    throw UserError(
        fmt::format("{} is a run of {} with {}", folder.string(), mesh_text(measured),
                    counted(measured.micro_batches, "micro-batch")),
        fmt::format("it would stand beside the prediction of {} with {}", mesh_text(simulated),
                    counted(simulated.micro_batches, "micro-batch")),
        "give --plan " + (folder / "plan.json").string() + ", or the folder of another run",
        ExitCode::kBadConfig);
  }
}

void write_report(const std::string& file, const std::string& title,
                  const std::vector<SimulatedPlan>& plans) {
  std::vector<ReportedPlan> list;
  for (const SimulatedPlan& each : plans) {
    list.push_back(reported(each.plan.name, each.title(), each.run, each.compiled));
    if (each.measured) list.back().measured = {each.measured->step, each.measured->peak};
  }
  write_output(file, report_html(title, list));
}

Document document_of(const std::vector<SimulatedPlan>& plans) {
  const auto document_of_plan = [](const SimulatedPlan& plan) {
    Document each = to_document(plan.run);
    if (plan.measured) each["measured"] = comparison_document(plan.run, *plan.measured);
    return each;
  };
  Document document = document_of_plan(plans.front());
  for (size_t i = 1; i < plans.size(); ++i) {
    Document other = document_of_plan(plans[i]);
    other["plan"] = plans[i].plan.name;
    document["compared"].append(std::move(other));
  }
  return document;
}

}  // namespace

void SimulateCommand::describe(OptionParser& parser) {
  add_options(parser, config);
  parser.required_text({"--cluster", "FILE|LINE",
                        "The devices and their links: a cluster file, one line such as "
                        "'8xa100-80g' or '4x8xh100-sxm;ib=400Gb', or 'detect' for this machine"},
                       cluster);
  parser.texts(
      {"--compare", "FILE|PRESET", "Another plan to predict beside this one; may be repeated"},
      compared);
  add_batch_option(parser, config.batch);
  parser.flag({"--map-ranks", "",
               "Choose the devices of the ranks, so that those which exchange much are close"},
              map_ranks);
  add_runtime_option(parser, runtime);
  parser.text({"-o,--out", "FILE", "Write the plan with the mapping of its ranks and the prices"},
              plan_file);
  parser.text({"--trace", "FILE", "Write the simulated timeline, which ui.perfetto.dev opens"},
              trace);
  parser.text({"--report", "FILE",
               "Write a page of HTML: timeline, memory, communication, devices, shardings"},
              report);
  parser.texts({"--measured", "DIR",
                "The --out folder of a run of this plan: its measured steps are printed beside the "
                "predicted one; once more for each --compare"},
               measured);
  parser.check([this] {
    if (measured.size() > 1 + compared.size())
      refuse_usage(fmt::format("there are {} and {}", counted(std::ssize(measured), "measured run"),
                               counted(std::ssize(compared) + 1, "plan")),
                   "the first --measured is of the plan, the others are of --compare in turn",
                   "leave out the runs of other plans");
  });
  add_options(parser, compilation);
  add_options(parser, output);
}

ExitCode SimulateCommand::run(Processes&) {
  const NamedCluster machines = named_cluster(cluster, runtime);
  config.automatic.cluster = cluster;
  const Session session = sized_session(*this);
  if (trace) check_output(*trace);
  if (report) check_output(*report);
  if (!plan_file.empty()) check_output(plan_file);
  const Graph graph = training_graph(session.config);
  const Network network = network_of(session.config.model);
  const TrainingSettings settings = training_settings(session.config);
  const Workload work{network, settings, graph, session.config.data.held_out > 0,
                      trace.has_value() || report.has_value()};
  std::vector<SimulatedPlan> plans;
  plans.push_back(simulated(*this, work, session.plan, machines));
  for (const std::string& name : compared) {
    const PlanOptions other{.plan = name, .ranks = {}};
    plans.push_back(
        simulated(*this, work, chosen_plan(other, {}, [&] { return graph; }), machines));
  }
  add_measured(*this, graph, plans);
  const SimulatedPlan& first = plans.front();
  if (trace) write_output(*trace, to_trace_json(first.run.prediction.timeline));
  if (report) write_report(*report, config.file, plans);
  if (!plan_file.empty())
    write_output(
        plan_file,
        to_json(to_document(first.plan, graph, rewritten_fingerprint(first.compiled)), 2) + "\n");
  std::string text;
  for (const SimulatedPlan& each : plans)
    text += (text.empty() ? "" : "\n") + each.title() + "\n\n" + prediction_text(each.run) +
            (each.measured ? "\n" + comparison_text(each.run, *each.measured) : "");
  print_result(output, document_of(plans), text);
  return first.run.prediction.fits() ? ExitCode::kDone : ExitCode::kNoPlan;
}

}  // namespace tessera
