// The fastest of the whole uniform grid: every preset dp x tp x sp x pp on all devices of a cluster
// with every number of micro-batches that divides the batch and, with stages, every schedule.
//
//     uniform_grid_bench CONFIG CLUSTER [MEMORY]
//
// MEMORY is that of a device in bytes, at most. Printed are, as a JSON object, the simulated step
// and the name of the fastest one that fits (no step: none fits), and how many were simulated, were
// excluded since a bound of their kernels alone is above a known step, did not fit, and were
// refused.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/sources.h"
#include "compiler/plan/preset.h"
#include "planner/presets/presets.h"
#include "planner/search/sources/incumbents.h"
#include "training/config/config.h"
#include "training/engine/graphs.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

/// Schedules of one placement of stages. The bound of a step does not depend on their order of
/// passes, so where one is excluded all of them are.
using Schedules = std::vector<PipelineKind>;

const std::vector<Schedules>& schedules_by_stages() {
  using enum PipelineKind;
  static const std::vector<Schedules> list = {
      {kOneForwardOneBackward, kForwardThenBackward, kEagerOneForwardOneBackward, kZeroBubbleH1,
       kZeroBubbleH2, kAuto},
      {kInterleaved},
      {kZeroBubbleV, kVHalf, kVMin}};
  return list;
}

class Grid {
 public:
  explicit Grid(PlanRequest request) : request_(std::move(request)) {}

  void run() {
    const PlanConstraints constraints = constraints_of(request_.cluster.device_count(), false);
    const int64_t rows = batch_rows(request_.graph);
    for (const Candidate& preset : preset_grid(request_, constraints, 1 << 20).candidates)
      for (int64_t count = 1; count <= std::min(rows, kMaxMicroBatches); ++count)
        if (rows % count == 0) try_all(preset, count);
  }

  void print() const {
    fmt::print(
        "{{{}\"name\": \"{}\", \"simulated\": {}, \"excluded\": {}, \"misfits\": {}, "
        "\"refused\": {}}}\n",
        fastest_ ? fmt::format("\"step_seconds\": {}, ", fastest_->value()) : "", name_, simulated_,
        excluded_, misfits_, refused_);
  }

 private:
  void try_all(const Candidate& preset, int64_t count) {
    const std::string text = fmt::format("{},micro_batches={}", preset.name, count);
    if (preset.plan.meshes.size() < 2 || count == 1) {
      evaluate_some({text});
      return;
    }
    for (const Schedules& schedules : schedules_by_stages()) {
      std::vector<std::string> texts;
      for (const PipelineKind schedule : schedules)
        texts.push_back(fmt::format("{},schedule={}", text, to_text(schedule)));
      const int64_t before = excluded_;
      evaluate_some({texts.front()});
      texts.erase(texts.begin());
      if (excluded_ > before)
        excluded_ += std::ssize(texts);
      else
        evaluate_some(texts);
    }
  }

  void evaluate_some(const std::vector<std::string>& texts) {
    std::vector<Candidate> candidates;
    for (const std::string& text : texts) try {
        candidates.push_back(
            {Candidate::Source::kPreset, text, preset_plan(parse_preset(text), request_.graph)});
      } catch (const UserError&) {
        ++refused_;
      }
    const Evaluations found = evaluate(request_, std::move(candidates), {.limit = fastest_});
    excluded_ += std::ssize(found.excluded);
    refused_ += std::ssize(found.unusable);
    for (const EvaluatedCandidate& each : found.evaluated) {
      ++(each.fits() ? simulated_ : misfits_);
      if (!each.fits() || (fastest_ && each.step() >= *fastest_)) continue;
      fastest_ = each.step();
      name_ = each.candidate.name;
    }
  }

  const PlanRequest request_;
  std::optional<Seconds> fastest_;
  std::string name_;
  int64_t simulated_ = 0, excluded_ = 0, misfits_ = 0, refused_ = 0;
};

void run(const std::string& config, const std::string& line, const std::optional<Bytes>& memory) {
  RunConfig read = read_config_file(config, {}).run;
  set_sizes(read.model, read.data);
  const Graph graph = training_graph(read);
  ClusterDescription description = parse_cluster_line(line).description();
  for (DeviceType& type : description.types)
    if (memory) type.memory = std::min(type.memory, *memory);
  const Cluster cluster(std::move(description));
  const auto graph_of_rows = [&](int64_t rows) {
    RunConfig changed = read;
    changed.train.batch = rows;
    return training_graph(changed);
  };
  Grid grid({.graph = graph, .cluster = cluster, .graph_of_rows = graph_of_rows});
  grid.run();
  grid.print();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("uniform_grid_bench CONFIG CLUSTER [MEMORY]\n", stderr);
    return 64;
  }
  tessera::run(argv[1], argv[2],
               argc > 3 ? std::optional(tessera::Bytes(std::stoll(argv[3]))) : std::nullopt);
}
