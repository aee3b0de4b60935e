#include "simulator/step/act_demands.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "kernels/bind.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {
namespace {

constexpr int64_t kCore = 1'000'000'000;  // core-nanoseconds in a second

/// Is it an exchange between ranks of one mesh?
bool is_inside_mesh(const TaskGraph& graph, const Task& task) {
  return task.kind == Task::Kind::kExchange &&
         std::ranges::all_of(task.inputs, [&](RegisterIndex input) {
           return *graph.registers[input].attr.mesh == *graph.meshes[task.mesh];
         });
}

bool has_even_parts(const Register& reg) {
  const Mesh& mesh = *reg.attr.mesh;
  return local_type(reg, mesh.largest_shard_coordinate()) ==
         local_type(reg, mesh.smallest_shard_coordinate());
}

}  // namespace

ActDemands::ActDemands(const TaskGraph& graph, Deployment deployment)
    : graph_(graph),
      deployment_(std::move(deployment)),
      profile_(deployment_.cluster->description().runtime) {
  if (profile_.fusion != Fusion::kNone)
    fused_ = std::make_unique<FusedKernels>(
        graph, profile_.fusion,
        [this](const Task& task, const KernelStep& step) { return class_of(task, step); });
  if (fused_) {
    identical_ = identical_tasks(graph);
    for (const TaskId id : graph.tasks.indices()) {
      const Task& task = graph.tasks[id];
      if (task.kind == Task::Kind::kCompute || is_inside_mesh(graph, task))
        ++passes_[{task.mesh, task.micro_batch, task.role}][identical_[id]];
    }
  }
  is_even_ = IndexedVector<TaskId, std::optional<bool>>(graph.tasks.size(), std::nullopt);
  are_even_parts_ =
      IndexedVector<RegisterIndex, std::optional<bool>>(graph.registers.size(), std::nullopt);
  for (MeshIndex mesh : graph.meshes.indices()) working_sets_.push_back(working_set(mesh));
}

bool ActDemands::is_even(RegisterIndex index) {
  std::optional<bool>& known = are_even_parts_[index];
  if (!known) known = has_even_parts(graph_.registers[index]);
  return *known;
}

bool ActDemands::is_even(TaskId id) {
  std::optional<bool>& known = is_even_[id];
  if (known) return *known;
  const Task& task = graph_.tasks[id];
  const auto all_even = [&](const std::vector<RegisterIndex>& registers) {
    return std::all_of(registers.begin(), registers.end(),
                       [&](RegisterIndex index) { return is_even(index); });
  };
  known = std::all_of(task.steps.begin(), task.steps.end(), [&](const KernelStep& step) {
    return all_even(step.inputs) && all_even(step.outputs);
  });
  return *known;
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
    case Task::Kind::kExchange: return exchange(rank, id);
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

ExchangeWork ActDemands::exchange_work(Rank rank, TaskId id) {
  const Task& task = graph_.tasks[id];
  std::map<Rank, int64_t> bytes;
  ExchangeWork exchange{.to = deployment_.device(rank), .messages = {}};
  for (size_t i = 0; i < task.parts.size(); ++i) {
    const TensorType& type = graph_.registers[task.outputs[i]].type;
    for (const RecvElements& recv_region :
         transfer_cache_.at(type.shape, task.parts[i].exchange, rank)) {
      const Bytes size(recv_region.count * size_of(type.dtype));
      exchange.copied += size;
      if (recv_region.sender != rank) bytes[recv_region.sender] += size.value();
    }
  }
  for (const auto& [sender, amount] : bytes)
    if (deployment_.device(sender) != exchange.to)
      exchange.messages.push_back({deployment_.device(sender), amount});
  if (fused_ && is_in_bucket(task)) {
    constexpr double kBucket = 25 << 20;  // of PyTorch's DistributedDataParallel
    int64_t received = 0;
    for (const ExchangeWork::Message& message : exchange.messages) received += message.bytes;
    exchange.start = std::min(1.0, static_cast<double>(received) / kBucket);
  }
  return exchange;
}

bool ActDemands::is_in_bucket(const Task& task) const {
  const auto is_of_variables = [&](RegisterIndex index) {
    const Register& reg = graph_.registers[index];
    if (reg.producer.is_none() || reg.storage == Register::Storage::kVariable) return true;
    for (const KernelStep& step : graph_.tasks[reg.producer].steps)
      if (std::ranges::find(step.outputs, index) != step.outputs.end())
        return std::ranges::all_of(step.inputs, [&](RegisterIndex input) {
          return graph_.registers[input].storage == Register::Storage::kVariable;
        });
    return false;
  };
  const auto is_for_optimizer = [&](RegisterIndex output) {
    const auto& consumers = graph_.registers[output].consumers;
    return !consumers.empty() && std::ranges::all_of(consumers, [&](TaskId consumer) {
      return graph_.tasks[consumer].role == Role::kOptimizer;
    });
  };
  return std::ranges::all_of(task.inputs, is_of_variables) ||
         std::ranges::all_of(task.outputs, is_for_optimizer);
}

ActDemand ActDemands::exchange(Rank rank, TaskId id) {
  const ExchangeWork exchange = exchange_work(rank, id);
  ActDemand demand =
      work(rank, copy_price(exchange.copied, 1, deployment_.type(rank).cost).estimate);
  ActDemand messages = demand_of(exchange, *deployment_.cluster);
  demand.fixed += messages.fixed;
  std::ranges::move(messages.flows, std::back_inserter(demand.flows));
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
  const Key key = key_of(rank, id);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  if (fused_) {
    const std::vector<KernelWork>& works = kernel_work(rank, id);
    KernelPrice price = price_of(works, deployment_.type(rank).cost, profile_);
    const double wait = host_wait(pass_work(rank, id), *deployment_.cluster).value();
    price.time += Seconds(static_cast<double>(launches(works)) * wait);
    return known_.emplace(key, price).first->second;
  }
  KernelPrice sum;
  const Task& task = graph_.tasks[id];
  for (const KernelStep& step : task.steps)
    sum = sum + price(graph_, step, rank, working_sets_[task.mesh]);
  return known_.emplace(key, sum).first->second;
}

KernelWork ActDemands::work_of_scores(const KernelStep& step, const LocalWork& work,
                                      Rank rank) const {
  const auto shape_of = [&](size_t input) {
    const Register& reg = graph_.registers[step.inputs[input]];
    return local_type(reg, *reg.attr.mesh->coordinate_of(rank)).shape;
  };
  const Shape q = shape_of(0), k = shape_of(1);  // [batch, positions, heads, features]
  constexpr size_t kInputsOfForward = 3;
  const bool is_forward = step.inputs.size() == kInputsOfForward;
  const auto features = static_cast<double>(q[3]);
  const double heads = static_cast<double>(q[0] * q[2]);
  KernelWork both{.work = {.operation = OperationClass::kMatmul, .dtype = work.dtype},
                  .scores = heads * static_cast<double>(q[1]) * static_cast<double>(k[1]),
                  .passes = is_forward ? 1 : 1.5};
  both.work.flops = Flops(2 * (is_forward ? 2 : 4) * both.scores * features);
  both.work.pieces = heads;
  both.work.smallest_extent = features;
  return both;
}

const PassWork& ActDemands::pass_work(Rank rank, TaskId id) {
  const Task& task = graph_.tasks[id];
  const Pass pass{task.mesh, task.micro_batch, task.role};
  const std::map<TaskId, int64_t>& tasks = passes_[pass];
  const bool all_even = std::ranges::all_of(tasks, [&](const auto& each) {
    return graph_.tasks[each.first].kind != Task::Kind::kExchange && is_even(each.first);
  });
  const auto [at, is_new] = pass_works_.try_emplace({pass, all_even ? ~type_index(rank) : rank});
  PassWork& work = at->second;
  if (!is_new) return work;
  work.device = deployment_.device(rank);
  for (const auto& [each, count] : tasks) {
    if (graph_.tasks[each].kind == Task::Kind::kExchange)
      work.exchanges.push_back({exchange_work(rank, each), count});
    else
      work.kernels.push_back({kernel_work(rank, each), count});
  }
  return work;
}

Bytes ActDemands::bytes_of_scores(RegisterIndex index) {
  if (profile_.attention != AttentionKernel::kScores) return Bytes(0);
  const Register& reg = graph_.registers[index];
  if (reg.producer.is_none()) return Bytes(0);
  const Task& task = graph_.tasks[reg.producer];
  constexpr int64_t kBytesOfScore = 5;
  for (const KernelStep& step : task.steps) {
    if (step.outputs.size() != 2 || step.outputs[1] != index ||
        class_of(task, step) != OperationClass::kAttention)
      continue;
    const Rank rank = graph_.meshes[task.mesh]->ranks().front();
    const KernelWork work = work_of_scores(step, work_of_step(graph_, step, rank), rank);
    return Bytes(kBytesOfScore * static_cast<int64_t>(work.scores));
  }
  return Bytes(0);
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

const std::vector<KernelWork>& ActDemands::kernel_work(Rank rank, TaskId id) {
  const auto [at, is_new] = works_.try_emplace(key_of(rank, identical_[id]));
  if (is_new) at->second = made_kernel_work(rank, id);
  return at->second;
}

std::vector<KernelWork> ActDemands::made_kernel_work(Rank rank, TaskId id) {
  const Task& task = graph_.tasks[id];
  std::vector<KernelWork> steps;
  for (const KernelStep& step : task.steps) {
    KernelWork& made = steps.emplace_back();
    if (step.control) made.priced = price(graph_, step, rank, working_sets_[task.mesh]);
    if (step.control || step.outputs.empty()) continue;
    made.work = work_of_step(graph_, step, rank);
    if (profile_.attention == AttentionKernel::kScores &&
        made.work.operation == OperationClass::kAttention)
      made = work_of_scores(step, made.work, rank);
  }
  std::vector<KernelWork> kernels;
  for (const FusedKernel& kernel : fused_->of(id)) {
    if (kernel.is_alone) {
      kernels.push_back(steps[kernel.steps.front()]);  // and perhaps a bias
      continue;
    }
    KernelWork& fused = kernels.emplace_back();
    fused.is_fused = true;
    fused.launches = kernel.is_of_list ? 0 : 1;
    Bytes alone{0}, moved{0};
    for (const size_t step : kernel.steps) {
      fused.work.flops += steps[step].work.flops;
      fused.work.padding += steps[step].work.padding;
      alone += steps[step].work.bytes();
    }
    for (const auto* list : {&kernel.reads, &kernel.writes})
      for (const RegisterIndex reg : *list) moved += local_bytes(reg, rank);
    fused.work.read = std::min(alone, moved);
  }
  return kernels;
}

std::vector<StepPrice> ActDemands::steps(Rank rank, TaskId id) {
  if (fused_) return steps_of_kernels(rank, id);
  std::vector<StepPrice> list;
  for (const KernelStep& step : graph_.tasks[id].steps) {
    StepPrice& made = list.emplace_back();
    made.time = price(graph_, step, rank, working_sets_[graph_.tasks[id].mesh]).time;
    if (!step.control && !step.outputs.empty())
      made.operation = work_of_step(graph_, step, rank).operation;
  }
  return list;
}

std::vector<StepPrice> ActDemands::steps_of_kernels(Rank rank, TaskId id) {
  std::vector<StepPrice> list(graph_.tasks[id].steps.size());
  const std::vector<KernelWork>& works = kernel_work(rank, id);
  const DeviceCost& device = deployment_.type(rank).cost;
  RuntimeProfile alone = profile_;
  alone.host = Seconds(0);
  size_t i = 0;
  Seconds all{0};
  for (const FusedKernel& kernel : fused_->of(id)) {
    StepPrice& first = list[kernel.steps.front()];
    first.operation = works[i].work.operation;
    first.time = price_of(std::span(&works[i], 1), device, alone).time;
    all += first.time;
    ++i;
  }
  // What the host takes longer than the device is divided in the same proportion.
  const Seconds time = kernels(rank, id).time;
  if (all > Seconds(0))
    for (StepPrice& step : list)
      step.time = Seconds(step.time.value() * time.value() / all.value());
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
