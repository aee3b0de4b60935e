#include "prediction/act_prices.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "kernels/bind.h"
#include "reshard/pulls.h"

namespace tessera {
namespace {

ActPrice operator+(ActPrice a, ActPrice b) {
  return {a.time + b.time, a.flops + b.flops};
}

bool is_even(const Register& reg) {
  const Mesh& mesh = *reg.attr.mesh;
  return local_type(reg, mesh.heaviest()) == local_type(reg, mesh.lightest());
}

}  // namespace

ActPrices::ActPrices(const TaskGraph& graph, Deployment deployment)
    : graph_(graph), deployment_(std::move(deployment)) {
  for (const Task& task : graph.tasks) is_even_.push_back(is_even(task));
}

bool ActPrices::is_even(const Task& task) const {
  const auto all_even = [&](const std::vector<RegisterIndex>& registers) {
    return std::all_of(registers.begin(), registers.end(), [&](RegisterIndex index) {
      return tessera::is_even(graph_.registers[index]);
    });
  };
  return std::all_of(task.steps.begin(), task.steps.end(), [&](const KernelStep& step) {
    return all_even(step.inputs) && all_even(step.outputs);
  });
}

int ActPrices::type_index(Rank rank) const {
  const std::vector<DeviceType>& types = deployment_.cluster->description().types;
  return static_cast<int>(&deployment_.type(rank) - types.data());
}

ActPrice ActPrices::price(Rank rank, TaskId id) {
  const Task& task = graph_.tasks[id];
  switch (task.kind) {
    case Task::Kind::kFeed:
    case Task::Kind::kFetch: return {};
    case Task::Kind::kCompute: {
      const Key key{id, is_even_[id] ? ~type_index(rank) : rank};
      const auto found = known_.find(key);
      if (found != known_.end()) return found->second;
      return known_.emplace(key, kernels(rank, task)).first->second;
    }
    case Task::Kind::kExchange:
      if (!known_.contains({id, rank})) price_exchange(id);
      return known_.at({id, rank});
    case Task::Kind::kCopy: {
      const Bytes bytes = graph_.registers[task.outputs.front()].size;
      return {copy_price(bytes, 1, deployment_.type(rank).cost).estimate, Flops(0)};
    }
  }
  throw InternalError("unknown kind of task");
}

ActPrice ActPrices::kernels(Rank rank, const Task& task) const {
  ActPrice sum;
  for (const KernelStep& step : task.steps) sum = sum + step_price(graph_, step, rank);
  return sum;
}

ActPrice ActPrices::step_price(const TaskGraph& graph, const KernelStep& step, Rank rank) const {
  if (step.control) {
    const Control& control = *step.control;
    std::vector<ActPrice> regions;
    for (const TaskGraph& region : control.regions) regions.push_back(graph_price(region, rank));
    if (control.kind == Control::Kind::kIf)
      return *std::max_element(regions.begin(), regions.end(),
                               [](ActPrice a, ActPrice b) { return a.time < b.time; });
    const auto times = static_cast<double>(std::max<int64_t>(control.max_iterations, 1));
    ActPrice once;
    for (const ActPrice& region : regions) once = once + region;
    return {Seconds(times * once.time.value()), Flops(times * once.flops.value())};
  }
  const auto types = [&](const std::vector<RegisterIndex>& registers) {
    std::vector<TensorType> list;
    for (RegisterIndex index : registers) {
      const Register& reg = graph.registers[index];
      list.push_back(local_type(reg, *reg.attr.mesh->coordinate_of(rank)));
    }
    return list;
  };
  if (step.outputs.empty()) return {};
  const Register& first = graph.registers[step.outputs.front()];
  const LocalWork work = work_of(localize(step.call, *first.attr.mesh->coordinate_of(rank),
                                          types(step.inputs), types(step.outputs)),
                                 graph.kernels.get());
  return {compute_price(work, deployment_.type(rank).cost).estimate, work.flops};
}

ActPrice ActPrices::graph_price(const TaskGraph& graph, Rank rank) const {
  ActPrice sum;
  for (const Task& task : graph.tasks)
    for (const KernelStep& step : task.steps) sum = sum + step_price(graph, step, rank);
  return sum;
}

void ActPrices::price_exchange(TaskId id) {
  const Task& task = graph_.tasks[id];
  const Cluster& cluster = *deployment_.cluster;
  struct Receiver {
    Seconds latency{0};
    std::set<ChannelId> channels = {};
    Bytes combined{0};
  };
  std::map<Rank, Receiver> receivers;
  std::map<ChannelId, double> seconds;  // that a channel is busy
  for (Rank rank : graph_.meshes[task.mesh]->ranks()) {
    Receiver& receiver = receivers[rank];
    std::set<Rank> senders;
    for (size_t i = 0; i < task.parts.size(); ++i) {
      const TensorType& type = graph_.registers[task.outputs[i]].type;
      for (const Pull& pull : pulls(type.shape, task.parts[i].exchange, rank)) {
        const Bytes bytes = byte_size({type.dtype, pull.box.shape()});
        receiver.combined += bytes;
        if (pull.sender == rank) continue;
        const DeviceId from = deployment_.device(pull.sender), to = deployment_.device(rank);
        if (senders.insert(pull.sender).second) receiver.latency += cluster.link(from, to).latency;
        for (ChannelId channel : cluster.path(from, to)) {
          receiver.channels.insert(channel);
          seconds[channel] +=
              static_cast<double>(bytes.value()) / cluster.channels()[channel].bytes_per_second;
        }
      }
    }
  }
  for (const auto& [rank, receiver] : receivers) {
    double busy = 0;
    for (ChannelId channel : receiver.channels) busy = std::max(busy, seconds[channel]);
    const Seconds combine = copy_price(receiver.combined, 1, deployment_.type(rank).cost).estimate;
    known_[{id, rank}] = {receiver.latency + std::max(Seconds(busy), combine), Flops(0)};
  }
}

}  // namespace tessera
