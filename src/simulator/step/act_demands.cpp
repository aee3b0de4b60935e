#include "simulator/step/act_demands.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/bind.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {
namespace {

constexpr int64_t kCore = 1'000'000'000;  // core-nanoseconds in a second

int64_t nanoseconds(Seconds time) {
  return std::llround(1e9 * time.value());
}

bool has_even_parts(const Register& reg) {
  const Mesh& mesh = *reg.attr.mesh;
  return local_type(reg, mesh.largest_shard_coordinate()) ==
         local_type(reg, mesh.smallest_shard_coordinate());
}

}  // namespace

ActDemands::ActDemands(const TaskGraph& graph, Deployment deployment, const RuntimeProfile* profile)
    : graph_(graph), deployment_(std::move(deployment)), profile_(profile) {
  if (profile_ && profile_->fusion != Fusion::kNone)
    fused_ = std::make_unique<FusedKernels>(
        graph, profile_->fusion,
        [this](const Task& task, const KernelStep& step) { return class_of(task, step); });
  for (const Task& task : graph.tasks) is_even_.push_back(is_even(task));
  for (MeshIndex mesh : graph.meshes.indices()) working_sets_.push_back(working_set(mesh));
}

bool ActDemands::is_even(const Task& task) const {
  const auto all_even = [&](const std::vector<RegisterIndex>& registers) {
    return std::all_of(registers.begin(), registers.end(), [&](RegisterIndex index) {
      return has_even_parts(graph_.registers[index]);
    });
  };
  return std::all_of(task.steps.begin(), task.steps.end(), [&](const KernelStep& step) {
    return all_even(step.inputs) && all_even(step.outputs);
  });
}

int ActDemands::type_index(Rank rank) const {
  const std::vector<DeviceType>& types = deployment_.cluster->description().types;
  return static_cast<int>(&deployment_.type(rank) - types.data());
}

IndexedVector<ResourceId, Resource> ActDemands::resources() const {
  const Cluster& cluster = *deployment_.cluster;
  IndexedVector<ResourceId, Resource> list;
  for (const Channel& channel : cluster.channels())
    list.push_back({channel.name, std::max<int64_t>(1, std::llround(channel.bytes_per_second))});
  for (int machine = 0; machine < cluster.machine_count(); ++machine)
    list.push_back({cluster.machine_name(machine) + " cores",
                    std::max<int64_t>(1, std::llround(kCore * cluster.cores(machine))),
                    Resource::Kind::kCores});
  return list;
}

ActDemand ActDemands::demand(Rank rank, TaskId id) {
  const Task& task = graph_.tasks[id];
  switch (task.kind) {
    case Task::Kind::kFeed:
    case Task::Kind::kFetch: return {};
    case Task::Kind::kCompute: return work(rank, kernels(rank, id).time);
    case Task::Kind::kExchange: return exchange(rank, task);
    case Task::Kind::kCopy: return copy(rank, task);
  }
  throw InternalError("unknown kind of task");
}

/// Time of a rank on its device.
ActDemand ActDemands::work(Rank rank, Seconds time) const {
  if (deployment_.type(rank).kind != HardwareKind::kCpu) return {nanoseconds(time), {}};
  const Cluster& cluster = *deployment_.cluster;
  const auto cores = ResourceId(static_cast<int>(cluster.channels().size()) +
                                cluster.machine(deployment_.device(rank)));
  return {0, {{nanoseconds(time), {{cores}}, kCore}}};
}

/// A copy to or from a file takes no time of cores.
ActDemand ActDemands::copy(Rank rank, const Task& task) const {
  const Register& target = graph_.registers[task.outputs.front()];
  const DeviceCost& cost = deployment_.type(rank).cost;
  const auto is_in_file = [&](RegisterIndex reg) {
    return device_of(graph_, graph_.registers[reg].mesh) == DeviceKind::kFile;
  };
  if (is_in_file(task.inputs.front()) || is_in_file(task.outputs.front())) {
    const Bytes size = byte_size(local_type(target, *target.attr.mesh->coordinate_of(rank)));
    return {nanoseconds(file_copy_price(size, cost).estimate), {}};
  }
  return work(rank, copy_price(target.size, 1, cost).estimate);
}

ActDemand ActDemands::exchange(Rank rank, const Task& task) {
  const Cluster& cluster = *deployment_.cluster;
  std::map<Rank, int64_t> bytes;
  Bytes combined{0};
  for (size_t i = 0; i < task.parts.size(); ++i) {
    const TensorType& type = graph_.registers[task.outputs[i]].type;
    for (const RecvElements& recv_region :
         transfer_cache_.at(type.shape, task.parts[i].exchange, rank)) {
      const Bytes size(recv_region.count * size_of(type.dtype));
      combined += size;
      if (recv_region.sender != rank) bytes[recv_region.sender] += size.value();
    }
  }
  ActDemand demand = work(rank, copy_price(combined, 1, deployment_.type(rank).cost).estimate);
  int64_t start = 0;
  for (const auto& [sender, amount] : bytes) {
    const DeviceId from = deployment_.device(sender), to = deployment_.device(rank);
    if (from == to) continue;
    const LinkCost link = cluster.link(from, to);
    start = std::max(start, nanoseconds(link.start));
    demand.fixed += nanoseconds(link.latency);
    Flow flow{amount, {}};
    for (ChannelId channel : cluster.path(from, to)) flow.uses.push_back({ResourceId(channel)});
    demand.flows.push_back(std::move(flow));
  }
  demand.fixed += start;
  return demand;
}

Bytes ActDemands::working_set(MeshIndex index) const {
  Bytes sum = graph_.arenas[index];
  const Mesh& mesh = *graph_.meshes[index];
  for (const TaskVariable& variable : graph_.variables) {
    const Register& reg = graph_.registers[variable.value];
    if (device_of(graph_, reg.mesh) == DeviceKind::kFile) continue;
    if (*reg.attr.mesh == mesh) sum += byte_size(local_type(reg, mesh.largest_shard_coordinate()));
  }
  return sum;
}

KernelPrice ActDemands::kernels(Rank rank, TaskId id) {
  const Key key{id, is_even_[id] ? ~type_index(rank) : rank};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  if (fused_) return known_.emplace(key, price_of_profile(rank, id)).first->second;
  KernelPrice sum;
  const Task& task = graph_.tasks[id];
  for (const KernelStep& step : task.steps)
    sum = sum + price(graph_, step, rank, working_sets_[task.mesh]);
  return known_.emplace(key, sum).first->second;
}

OperationClass ActDemands::class_of(const Task& task, const KernelStep& step) {
  if (step.control || step.outputs.empty()) return OperationClass::kGather;  // alone
  const std::string& kernel = step.call->kernel;
  if (const auto found = classes_.find(kernel); found != classes_.end()) return found->second;
  const Rank rank = graph_.meshes[task.mesh]->ranks().front();
  return classes_[kernel] = work_of_step(graph_, step, rank).operation;
}

Bytes ActDemands::local_bytes(RegisterIndex index, Rank rank) const {
  const Register& reg = graph_.registers[index];
  return byte_size(local_type(reg, *reg.attr.mesh->coordinate_of(rank)));
}

KernelPrice ActDemands::price_of_profile(Rank rank, TaskId id) {
  const Task& task = graph_.tasks[id];
  const DeviceCost& device = deployment_.type(rank).cost;
  const double memory = device.memory_rate(OperationClass::kElementwise);
  std::vector<KernelPrice> steps;
  for (const KernelStep& step : task.steps) {
    steps.push_back(price(graph_, step, rank, working_sets_[task.mesh]));
    steps.back().time = std::max(Seconds(0), steps.back().time - device.launch);
  }
  KernelPrice sum;
  const std::vector<FusedKernel>& kernels = fused_->of(id);
  for (const FusedKernel& kernel : kernels) {
    KernelPrice own;
    for (const size_t step : kernel.steps) own = own + steps[step];
    if (!kernel.is_alone) {
      int64_t bytes = 0;
      for (const auto* list : {&kernel.reads, &kernel.writes})
        for (const RegisterIndex reg : *list) bytes += local_bytes(reg, rank).value();
      own.time = std::min(own.time, Seconds(static_cast<double>(bytes) / memory));
    }
    sum = sum + own;
  }
  const auto count = static_cast<double>(kernels.size());
  sum.time = std::max(sum.time + Seconds(count * profile_->gap.value()),
                      Seconds(count * profile_->host.value()));
  return sum;
}

std::vector<StepPrice> ActDemands::steps(Rank rank, TaskId id) const {
  std::vector<StepPrice> list;
  Seconds all{0};
  for (const KernelStep& step : graph_.tasks[id].steps) {
    StepPrice& made = list.emplace_back();
    made.time = price(graph_, step, rank, working_sets_[graph_.tasks[id].mesh]).time;
    all += made.time;
    if (!step.control && !step.outputs.empty())
      made.operation = work_of_step(graph_, step, rank).operation;
  }
  // In another runtime each step has its share of the task.
  const auto task = known_.find({id, is_even_[id] ? ~type_index(rank) : rank});
  if (fused_ && task != known_.end() && all > Seconds(0))
    for (StepPrice& step : list)
      step.time = Seconds(step.time.value() * task->second.time.value() / all.value());
  return list;
}

LocalWork ActDemands::work_of_step(const TaskGraph& graph, const KernelStep& step,
                                   Rank rank) const {
  const auto types = [&](const std::vector<RegisterIndex>& registers) {
    std::vector<TensorType> list;
    for (RegisterIndex index : registers) {
      const Register& reg = graph.registers[index];
      list.push_back(local_type(reg, *reg.attr.mesh->coordinate_of(rank)));
    }
    return list;
  };
  const Register& first = graph.registers[step.outputs.front()];
  return work_of(localize(step.call, *first.attr.mesh->coordinate_of(rank), types(step.inputs),
                          types(step.outputs)),
                 graph.kernels.get());
}

KernelPrice ActDemands::price(const TaskGraph& graph, const KernelStep& step, Rank rank,
                              Bytes working_set) const {
  if (step.control) {
    const Control& control = *step.control;
    std::vector<KernelPrice> regions;
    for (const TaskGraph& region : control.regions)
      regions.push_back(price(region, rank, working_set));
    if (control.kind == Control::Kind::kIf)
      return *std::max_element(regions.begin(), regions.end(),
                               [](KernelPrice a, KernelPrice b) { return a.time < b.time; });
    const auto times = static_cast<double>(std::max<int64_t>(control.max_iterations, 1));
    KernelPrice once;
    for (const KernelPrice& region : regions) once = once + region;
    return {Seconds(times * once.time.value()), Flops(times * once.flops.value()),
            Flops(times * once.padding.value())};
  }
  if (step.outputs.empty()) return {};
  const LocalWork work = work_of_step(graph, step, rank);
  return {compute_price(work, deployment_.type(rank).cost, working_set).estimate, work.flops,
          work.padding};
}

KernelPrice ActDemands::price(const TaskGraph& graph, Rank rank, Bytes working_set) const {
  KernelPrice sum;
  for (const Task& task : graph.tasks)
    for (const KernelStep& step : task.steps) sum = sum + price(graph, step, rank, working_set);
  return sum;
}

}  // namespace tessera
