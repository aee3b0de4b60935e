#include "cli/commands/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/count_text.h"
#include "base/file.h"
#include "cli/print/text_table.h"
#include "cli/run/session.h"
#include "cluster/cluster_file.h"
#include "engine/graphs.h"
#include "lower/lower.h"
#include "network/family.h"
#include "network/graphs.h"
#include "prediction/step_prediction.h"

namespace tessera {
namespace {

/// What a step does, whatever the plan.
struct StepWork {
  int64_t units = 0;
  std::string unit;
  double flops = 0;  // of the model
};

StepWork work_of(const RunConfig& config, const Graph& graph) {
  const Network network = network_of(config.model);
  return {units_per_batch(network, graph), network.targets.empty() ? "sample" : "token",
          model_flops(graph)};
}

struct Answer {
  const StepPrediction& prediction;
  const StepWork& work;
  const Cluster& cluster;
  const Deployment& deployment;

  double units_per_second() const {
    return static_cast<double>(work.units) / prediction.step.value();
  }
  double mfu() const {
    return work.flops / (prediction.step.value() * prediction.peak_flops_per_second);
  }
  /// The rank whose memory is fullest.
  size_t fullest() const {
    const auto share = [](const RankMemoryNeed& memory) {
      return static_cast<double>(memory.all().value()) /
             static_cast<double>(memory.capacity.value());
    };
    return std::ranges::max_element(prediction.memory, {}, share) - prediction.memory.begin();
  }
};

Document document_of(const Answer& answer) {
  const StepPrediction& prediction = answer.prediction;
  Document document;
  document["step_ms"] = 1e3 * prediction.step.value();
  document[answer.work.unit + "s_per_s"] = answer.units_per_second();
  document["mfu"] = answer.mfu();
  document["hfu"] = prediction.utilization();
  document["bubble"] = prediction.bubble();
  document["fits"] = prediction.fits();
  document["ranks"] = Document::List{};
  for (size_t i = 0; i < prediction.ranks.size(); ++i) {
    const RankBreakdown& rank = prediction.ranks[i];
    const RankMemoryNeed& memory = prediction.memory[i];
    Document item;
    item["rank"] = rank.rank;
    item["device"] = answer.cluster.name(answer.deployment.device(rank.rank));
    item["compute_ms"] = 1e3 * rank.compute.value();
    item["exposed_ms"] = Document::Table{};
    for (const auto& [axes, time] : rank.exposed)
      item["exposed_ms"][axes.empty() ? "between meshes" : axes] = 1e3 * time.value();
    item["idle_ms"] = 1e3 * rank.idle.value();
    item["variable_bytes"] = memory.variables.value();
    item["arena_bytes"] = memory.arena.value();
    item["reserve_bytes"] = memory.reserve.value();
    item["capacity_bytes"] = memory.capacity.value();
    document["ranks"].append(std::move(item));
  }
  return document;
}

std::string memory_line(const Answer& answer) {
  const RankMemoryNeed& memory = answer.prediction.memory[answer.fullest()];
  const RankBreakdown& rank = answer.prediction.ranks[answer.fullest()];
  const std::string parts =
      fmt::format("{} of {}: variables {}, activations and buffers {}, libraries {}",
                  to_text(memory.all()), to_text(memory.capacity), to_text(memory.variables),
                  to_text(memory.arena), to_text(memory.reserve));
  const std::string where = fmt::format("rank {} on {}", rank.rank,
                                        answer.cluster.name(answer.deployment.device(rank.rank)));
  if (answer.prediction.fits()) return "memory      fits: " + where + " needs " + parts + "\n";
  return fmt::format("memory      DOES NOT FIT: {} lacks {}: it needs {}\n", where,
                     to_text(memory.all() - memory.capacity), parts);
}

constexpr size_t kListedRanks = 16;

std::string percent(Seconds part, Seconds whole) {
  return fmt::format("{:.1f} ms {:4.1f}%", 1e3 * part.value(),
                     whole.value() > 0 ? 100 * part.value() / whole.value() : 0);
}

std::string ranks_text(const Answer& answer) {
  const StepPrediction& prediction = answer.prediction;
  std::set<std::string> axes;
  for (const RankBreakdown& rank : prediction.ranks)
    for (const auto& [name, time] : rank.exposed) axes.insert(name);
  std::vector<std::string> header{"rank", "device", "kernels"};
  for (const std::string& name : axes)
    header.push_back(name.empty() ? "exposed between meshes" : "exposed " + name);
  header.insert(header.end(), {"waits", "memory"});
  TextTable table(header, "rl" + std::string(header.size() - 2, 'r'));
  const size_t count = std::min(prediction.ranks.size(), kListedRanks);
  for (size_t i = 0; i < count; ++i) {
    const RankBreakdown& rank = prediction.ranks[i];
    std::vector<std::string> row{std::to_string(rank.rank),
                                 answer.cluster.name(answer.deployment.device(rank.rank)),
                                 percent(rank.compute, prediction.step)};
    for (const std::string& name : axes) {
      const auto found = rank.exposed.find(name);
      row.push_back(found == rank.exposed.end() ? "" : percent(found->second, prediction.step));
    }
    row.push_back(percent(rank.idle, prediction.step));
    row.push_back(to_text(prediction.memory[i].all()));
    table.add(std::move(row));
  }
  std::string text = "\nWhere the time of a step goes\n" + table.text();
  if (count < prediction.ranks.size())
    text +=
        fmt::format("  ... and {} more ranks, which --json has\n", prediction.ranks.size() - count);
  return text;
}

std::string text_of(const Answer& answer, const std::string& title) {
  const StepPrediction& prediction = answer.prediction;
  return title + "\n\n" +
         fmt::format("step        {:.4g} ms, {} {}s/s\n", 1e3 * prediction.step.value(),
                     grouped(static_cast<int64_t>(answer.units_per_second())), answer.work.unit) +
         fmt::format("efficiency  MFU {:.1f}%, HFU {:.1f}%, waiting {:.1f}%\n", 100 * answer.mfu(),
                     100 * prediction.utilization(), 100 * prediction.bubble()) +
         memory_line(answer) + ranks_text(answer);
}

}  // namespace

void SimulateCommand::describe(OptionParser& parser) {
  add_options(parser, config);
  parser.required_text({"--cluster", "FILE|LINE",
                        "The devices and their links: a cluster file, or one line such as "
                        "'8xa100-80g' or '4x8xh100-sxm;ib=400Gb'"},
                       cluster);
  parser.text({"--trace", "FILE", "Write the simulated timeline, which ui.perfetto.dev opens"},
              trace);
  add_options(parser, compilation);
  add_options(parser, output);
}

ExitCode SimulateCommand::run(Processes&) {
  const Cluster machines = cluster_of(cluster);
  Session session = open_session(config, {}, compilation);
  set_sizes(session.config.model, session.config.data);
  const Graph graph = training_graph(session.config);
  check_fits(session.plan, graph);
  const Deployment deployment = in_order(machines, session.plan.rank_count());
  if (!config.cost) {
    std::vector<MeshPtr> meshes;
    for (const NamedMesh& mesh : session.plan.placed()) meshes.push_back(mesh.mesh);
    session.plan.cost = cost_of(deployment, meshes);
  }
  if (trace) check_can_write(*trace);
  CompileOptions options;
  options.verify_passes = compilation.verify;
  Compiled compiled = compile(graph, session.plan, options);
  const auto tasks = std::make_shared<const TaskGraph>(std::move(compiled.tasks));
  const bool is_host = machines.type(0).kind == HardwareKind::kCpu;
  const StepPrediction prediction =
      predict_step(tasks, deployment, {.prefetch_exchanges = !is_host});
  if (trace) write_file(*trace, to_trace_json(prediction.timeline));
  const StepWork work = work_of(session.config, graph);
  const Answer answer{prediction, work, machines, deployment};
  print_result(
      output, document_of(answer),
      text_of(answer,
              plan_summary(session.plan) + ", on " +
                  (machines.description().name.empty() ? cluster : machines.description().name)));
  return prediction.fits() ? ExitCode::kDone : ExitCode::kNoPlan;
}

}  // namespace tessera
