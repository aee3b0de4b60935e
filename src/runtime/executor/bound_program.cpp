#include "runtime/executor/bound_program.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

ProgramContext context_of(std::shared_ptr<const TaskGraph> graph, const ProgramSetting& setting,
                          bool is_region) {
  ProgramContext context{.graph = graph,
                         .ranks = setting.ranks,
                         .options = setting.options,
                         .stop = setting.stop,
                         .variables = setting.variables,
                         .devices = setting.devices,
                         .arenas = setting.arenas,
                         .spin_policy = setting.spin_policy,
                         .actors = std::make_unique<TaskActors>(graph, setting.ranks),
                         .network = setting.network,
                         .process_of = setting.process_of,
                         .number = -1,
                         .is_region = is_region};
  return context;
}

}  // namespace

BoundProgram::BoundProgram(std::shared_ptr<const TaskGraph> graph, const ProgramSetting& setting,
                           const std::function<int()>& new_number, bool is_region)
    : ranks_(context_of(graph, setting, is_region)), executors_(setting.ranks.size()) {
  for (const Task& task : graph->tasks)
    for (const KernelStep& step : task.steps) {
      if (!step.control) continue;
      auto& bound = regions_[step.control];
      ensure(bound.empty(), "regions belong to one step");
      for (const TaskGraph& region : step.control->regions) {
        bound.push_back(std::make_unique<BoundProgram>(
            std::shared_ptr<const TaskGraph>(graph, &region), setting, new_number, true));
        ranks_.add_region(bound.back()->ranks_);
      }
    }
  ranks_.set_number(new_number());
}

BoundProgram::~BoundProgram() {
  const ProgramContext& context = ranks_.context();
  if (context.network) context.network->programs().close(context.number);
}

/// A rank that is not in the mesh of a region has the region too, but its actors do nothing.
void BoundProgram::make_rank(int rank_index, std::byte* lent_arena) {
  ranks_.add(rank_index, lent_arena);
  executors_[rank_index] = std::make_unique<RankExecutor>(ranks_, rank_index);
  for (const Task& task : graph().tasks)
    for (const KernelStep& step : task.steps)
      if (step.control) make_regions(rank_index, step);
  TaskActors& actors = *ranks_.context().actors;
  for (int receiver = 0; receiver < actors.rank_count(); ++receiver)
    if (finds_recv_regions_of(receiver, rank_index)) actors.find_recv_regions(receiver);
}

void BoundProgram::make_regions(int rank_index, const KernelStep& step) {
  std::byte* workspace = ranks_.find(rank_index)->memory.workspace(step);
  const auto& regions = regions_.at(step.control);
  for (size_t i = 0; i < regions.size(); ++i)
    regions[i]->make_rank(rank_index, workspace ? workspace + step.control->offsets[i] : nullptr);
}

/// A rank finds its own recv regions. The recv regions of the ranks of other processes are divided
/// among the ranks of this process.
bool BoundProgram::finds_recv_regions_of(int receiver, int rank_index) const {
  const ProgramContext& context = ranks_.context();
  if (context.is_here(receiver)) return receiver == rank_index;
  std::vector<int> here;
  for (int index = 0; index < context.actors->rank_count(); ++index)
    if (context.is_here(index)) here.push_back(index);
  return here[receiver % here.size()] == rank_index;
}

void BoundProgram::bind_rank(int rank_index) {
  RankRegions regions;
  for (const auto& [control, bound] : regions_)
    for (const auto& region : bound) {
      region->bind_rank(rank_index);
      regions[control].push_back(&region->rank(rank_index));
    }
  rank(rank_index).bind(regions);
}

void BoundProgram::open() {
  int answers = 0;
  Bytes largest{0};
  const ProgramContext& context = ranks_.context();
  for (size_t index = 0; index < context.ranks.size(); ++index)
    if (const RankEndpoint* endpoint = ranks_.find(static_cast<int>(index))) {
      const auto [receivers, bytes] = endpoint->answers.packing();
      answers += receivers;
      largest = std::max(largest, bytes);
    }
  context.network->fetch().reserve_staging(answers, largest);
  context.network->programs().open(context.number, ranks_);
  for_each_region([](BoundProgram& region) { region.open(); });
}

void BoundProgram::record_into(int rank_index, Recorder* recorder) {
  rank(rank_index).record_into(recorder);
  for_each_region([&](BoundProgram& region) { region.record_into(rank_index, recorder); });
}

Bytes BoundProgram::staging_bytes(int rank_index) {
  Bytes sum = rank(rank_index).staging_bytes();
  for_each_region([&](BoundProgram& region) { sum += region.staging_bytes(rank_index); });
  return sum;
}

}  // namespace tessera
