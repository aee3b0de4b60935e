#include "planner/pipeline/pipeline_simulator.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "compiler/schedule/clock.h"

namespace tessera {
namespace {

/// The limit of a device on which no micro-batch fits.
constexpr double kNoMemory = -1;
constexpr double kByte = 1;

/// What all stages of a device have together. Of what passes and what the optimizer takes one stage
/// has its own at a time.
struct DeviceCosts {
  double variables = 0, passing = 0, updating = 0, once = 0, joined = 0;
  double capacity = 0;

  double memory(double in_flight) const {
    return variables + std::max(in_flight + passing, updating);
  }
};

/// By device.
std::vector<DeviceCosts> device_costs(const PipelineChoice& choice) {
  std::vector<DeviceCosts> list(choice.devices());
  for (size_t s = 0; s < choice.stages.size(); ++s) {
    const StageChoice& stage = choice.stages[s];
    DeviceCosts& device = list[choice.device_of(s)];
    device.variables += stage.cost.variables;
    device.once += stage.cost.once;
    device.joined += stage.cost.joined;
    device.passing = std::max(device.passing, stage.cost.passing);
    device.updating = std::max(device.updating, stage.cost.updating);
    device.capacity = stage.capacity;
  }
  return list;
}

/// Gives the stages the needs of a pipeline that is no chain: branches run beside each other.
void set_needs(const PipelineChoice& choice, PipelineShape& shape) {
  for (PipelineStage& stage : shape.stages)
    stage.needs[index_of(PassKind::kForward)] =
        stage.needs[index_of(PassKind::kInputGradient)] = {};
  for (int s = 0; s < shape.stage_count(); ++s) {
    std::vector<PassNeed>& backward = shape.stages[s].needs[index_of(PassKind::kInputGradient)];
    backward.push_back({s, PassKind::kForward});
    for (const int from : choice.stages[s].reads) {
      shape.stages[s].needs[index_of(PassKind::kForward)].push_back({from, PassKind::kForward});
      shape.stages[from].needs[index_of(PassKind::kInputGradient)].push_back(
          {s, PassKind::kInputGradient});
    }
  }
}

PipelineShape shape_of(const PipelineChoice& choice) {
  const int stages = static_cast<int>(choice.stages.size());
  const int devices = static_cast<int>(choice.devices());
  PipelineShape shape = chain_of(devices, stages / devices,
                                 choice.is_v() ? StagePlacement::kV : StagePlacement::kRoundRobin,
                                 static_cast<int>(choice.micro_batches));
  if (!choice.is_chain) set_needs(choice, shape);
  for (int s = 0; s < stages; ++s) {
    const StageChoice& stage = choice.stages[s];
    shape.stages[s].costs = {stage.cost.forward, stage.cost.input_gradient,
                             stage.cost.weight_gradient, stage.cost.kept,
                             stage.cost.kept - stage.cost.late};
    shape.stages[s].transfer = stage.transfer;
    shape.transfer = std::max(shape.transfer, stage.transfer);  // by which orders are made
  }
  for (const DeviceCosts& device : device_costs(choice))
    shape.memory_limits.push_back(device.memory(0) <= device.capacity
                                      ? device.capacity - device.variables - device.passing
                                      : kNoMemory);
  return shape;
}

std::optional<PassTimeline> timeline_of(const PipelineChoice& choice) {
  const PipelineShape shape = shape_of(choice);
  if (!invalid_reason(choice.schedule, shape).empty()) return std::nullopt;
  const DeviceOrders orders = named_orders(choice.schedule, shape);
  if (!first_fault(shape, orders).empty()) return std::nullopt;
  return simulate_passes(shape, orders);
}

double step_seconds(const PipelineChoice& choice, const PassTimeline& timeline,
                    const std::vector<DeviceCosts>& devices) {
  std::vector<double> begins;  // of what is once for a step
  for (const DeviceUse& use : timeline.devices) begins.push_back(use.last_end);
  for (const SharedGradient& gradient : choice.shared) {
    double& begin = begins[choice.device_of(gradient.to)];
    begin = std::max(begin,
                     timeline.devices[choice.device_of(gradient.from)].last_end + gradient.seconds);
  }
  double end = 0, joined = 0;  // what waits for all devices begins when the last one is there
  for (size_t d = 0; d < devices.size(); ++d) {
    end = std::max(end, begins[d] + devices[d].once - devices[d].joined);
    joined = std::max(joined, devices[d].joined);
  }
  return end + joined;
}

DeviceOrders orders_of(const PipelineChoice& choice) {
  const PipelineShape shape = shape_of(choice);
  const std::string reason = invalid_reason(choice.schedule, shape);
  ensure(reason.empty(), "a schedule does not fit the stages: " + reason);
  return named_orders(choice.schedule, shape);
}

}  // namespace

std::vector<double> simulated_memory(const PipelineChoice& choice) {
  const std::optional<PassTimeline> timeline = timeline_of(choice);
  const std::vector<DeviceCosts> devices = device_costs(choice);
  std::vector<double> bytes;
  for (size_t s = 0; timeline && s < choice.stages.size(); ++s) {
    const size_t device = choice.device_of(s);
    bytes.push_back(devices[device].memory(timeline->devices[device].max_memory));
  }
  return bytes;
}

bool is_chain(const LayerSequence& sequence, const PipelineChoice& choice) {
  for (size_t i = 1; i < choice.stages.size(); ++i)
    if (!sequence.reads_from(choice.stages[i - 1].first_unit, choice.stages[i].first_unit,
                             choice.stages[i].end_unit))
      return false;
  return true;
}

PipelineChoice with_reads(const LayerSequence& sequence, PipelineChoice choice) {
  choice.is_chain = true;
  for (StageChoice& stage : choice.stages) stage.reads.clear();
  if (is_chain(sequence, choice) || sequence.branches().empty()) return choice;
  std::vector<bool> is_read(choice.stages.size(), false);
  for (size_t i = 0; i < choice.stages.size(); ++i) {
    StageChoice& stage = choice.stages[i];
    std::set<int> reads;
    size_t from = 0;
    for (int unit = stage.first_unit; unit < stage.end_unit; ++unit)
      for (const int read : sequence.reads[unit]) {
        while (choice.stages[from].end_unit <= read) ++from;
        while (choice.stages[from].first_unit > read) --from;
        if (from != i) reads.insert(static_cast<int>(from));
      }
    for (const int read : reads) is_read[read] = true;
    stage.reads.assign(reads.begin(), reads.end());
  }
  for (size_t i = 1; i < choice.stages.size(); ++i) {
    std::vector<int>& reads = choice.stages[i].reads;
    const auto before = static_cast<int>(i) - 1;
    if (reads.empty() && !is_read[i]) reads = {before};  // it has labels only
    choice.is_chain = choice.is_chain && std::ranges::count(reads, before) > 0;
  }
  return choice;
}

std::optional<PipelineChoice> simulate_pipeline(const LayerSequence& sequence,
                                                PipelineChoice choice, PipelineKind schedule) {
  choice.schedule = schedule;
  const bool wants_chain = facts_of(schedule).splits_backward || choice.has_two_stages();
  if (wants_chain && !is_chain(sequence, choice)) return std::nullopt;
  choice = with_reads(sequence, std::move(choice));
  const std::optional<double> seconds = simulated_seconds(choice);
  if (!seconds) return std::nullopt;
  choice.seconds = *seconds;
  return choice;
}

std::optional<double> simulated_seconds(const PipelineChoice& choice) {
  const std::optional<PassTimeline> timeline = timeline_of(choice);
  if (!timeline) return std::nullopt;
  return step_seconds(choice, *timeline, device_costs(choice));
}

PipelineSimulator::PipelineSimulator(const PipelineChoice& choice) : orders_(orders_of(choice)) {}

PipelineSimulator::Step PipelineSimulator::run(const PipelineChoice& choice) const {
  const std::vector<DeviceCosts> devices = device_costs(choice);
  const std::optional<PassTimeline> timeline = simulate_passes(shape_of(choice), orders_);
  ensure(timeline.has_value(), "the passes of a named order do not wait for each other");
  Step step{0, step_seconds(choice, *timeline, devices)};
  for (size_t d = 0; d < devices.size(); ++d) {
    const double needed = devices[d].memory(timeline->devices[d].max_memory);
    step.missing += std::max(0.0, needed - devices[d].capacity);
  }
  if (step.missing < kByte) step.missing = 0;  // it is the error of a sum
  return step;
}

}  // namespace tessera
