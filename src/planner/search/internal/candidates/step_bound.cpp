#include "planner/search/internal/candidates/step_bound.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "cluster/cost/device_cost.h"
#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "sharding/propagation/micro_batches.h"

namespace tessera {
namespace {

/// The simulation rounds the time of every act to nanoseconds.
constexpr double kRounding = 1e-9;

/// The kernels of an op on one rank: `once` is one of them, `all` those of a step.
struct OpTime {
  double once = 0, all = 0;
};

class KernelTimes {
 public:
  KernelTimes(const PlacedGraph& placed, const Plan& plan, const Deployment& deployment)
      : placed_(placed), plan_(plan), deployment_(deployment), own_(own_kernels(placed.graph)) {}

  OpTime time(OpId id) const {
    const Op& op = placed_.graph.op(id);
    if (!op.regions.empty() || op.outputs.empty()) return {};
    const OpSharding& sharding = placed_.sharded.at(id);
    const ShardingRule& rule = placed_.sharded.rules[id.index];
    const OpView op_view = view(placed_.graph, op);
    const KernelCall call = op_view.definition->kernel(op_view, factor_splits(rule, sharding));
    Coordinate rank = sharding.mesh->largest_shard_coordinate();
    const bool is_repeated = plan_.micro_batches > 1 && sharding.uses(0);
    const int64_t count = is_repeated ? plan_.micro_batches : 1;
    const auto at = [&](int64_t micro_batch) {
      if (is_repeated) rank[0] = micro_batch;
      return seconds_at(rank, op_view, rule, sharding, call);
    };
    OpTime time{at(0), 0};
    if (count > 1) time.once = std::min(time.once, at(count - 1));
    if (call_is_constant(call))  // then the parts of the first and the last one differ most
      return {time.once, static_cast<double>(count) * time.once};
    for (int64_t i = 0; i < count; ++i) {
      const double seconds = at(i);
      time.once = std::min(time.once, seconds);
      time.all += seconds;
    }
    return time;
  }

 private:
  static bool call_is_constant(const KernelCall& call) {
    return std::ranges::all_of(call.ints, &LocalInt::is_constant);
  }

  double seconds_at(const Coordinate& rank, const OpView& op, const ShardingRule& rule,
                    const OpSharding& sharding, const KernelCall& call) const {
    std::vector<TensorType> inputs, outputs;
    for (int i = 0; i < std::ssize(op.inputs); ++i)
      inputs.push_back({op.inputs[i].dtype,
                        input_attr(op, rule, sharding, i).local_shape(op.inputs[i].shape, rank)});
    for (int i = 0; i < std::ssize(op.outputs); ++i)
      outputs.push_back(
          {op.outputs[i].dtype,
           output_attr(op, rule, sharding, i).local_shape(op.outputs[i].shape, rank)});
    const LocalWork work =
        work_of(localize(call, rank, std::move(inputs), std::move(outputs)), own_.get());
    const DeviceCost& device = deployment_.type(sharding.mesh->rank_at(first_of(rank))).cost;
    if (fuses_ && may_be_hidden(work)) return 0;
    const Price price = compute_price(work, device);
    const Seconds launch(fuses_ ? device.launch_factor * device.launch.value() : 0);
    // Pieces of a decomposed product may each be faster than their part of the whole.
    const Seconds time = plan_.collective_matmul == 1 ? price.estimate - launch : price.floor;
    return std::max(time.value() - kRounding, 0.0);
  }

  /// In a runtime that joins kernels: with others; or attention, whose kernels are others than ours
  /// where the scores are in memory.
  static bool may_be_hidden(const LocalWork& work) {
    return is_fusible(work.operation) || work.operation == OperationClass::kAttention;
  }

  /// The same rank in the first micro-batch, where it has its own number.
  Coordinate first_of(Coordinate rank) const {
    if (plan_.micro_batches > 1) rank[0] = 0;
    return rank;
  }

  const PlacedGraph& placed_;
  const Plan& plan_;
  const Deployment& deployment_;
  const std::shared_ptr<const KernelSet> own_;
  const bool fuses_ = deployment_.cluster->description().runtime.fusion != Fusion::kNone;
};

/// What one rank computes: it begins after `head`, and `tail` follows its end.
struct Job {
  double head = 0, time = 0, tail = 0;
};

/// The end of the last tail in the schedule that always runs the begun job of the longest tail.
double longest_schedule(std::vector<Job> jobs) {
  std::ranges::sort(jobs, {}, &Job::head);
  const auto has_shorter_tail = [](const Job& a, const Job& b) { return a.tail < b.tail; };
  std::priority_queue<Job, std::vector<Job>, decltype(has_shorter_tail)> ready(has_shorter_tail);
  double now = 0, end = 0;
  for (size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty()) now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next) ready.push(jobs[next]);
    Job job = ready.top();
    ready.pop();
    const double until = next < jobs.size() ? jobs[next].head : now + job.time;
    if (now + job.time <= until) {
      now += job.time;
      end = std::max(end, now + job.tail);
    } else {
      job.time -= until - now;
      now = until;
      ready.push(job);
    }
  }
  return end;
}

/// By op, the longest chain of kernels before it and after it.
struct Chains {
  std::vector<double> head, tail;
};

/// Each mesh that reads a scalar may compute it, so chains do not count the ops that make one.
bool is_counted(const Graph& graph, const Op& op) {
  return !std::ranges::all_of(op.outputs,
                              [&](ValueId value) { return graph.type(value).shape.empty(); });
}

Chains chains_of(const Graph& graph, const std::vector<OpTime>& times) {
  const int count = static_cast<int>(graph.ops().size());
  Chains chains{std::vector<double>(count, 0), std::vector<double>(count, 0)};
  const auto own = [&](int op) { return is_counted(graph, graph.op({op})) ? times[op].once : 0.0; };
  const auto for_each_maker = [&](int op, const auto& visit) {
    for (ValueId input : graph.op({op}).inputs)
      if (const OpId maker = graph.value(input).producer; maker.index >= 0) visit(maker.index);
  };
  for (int op = 0; op < count; ++op)
    for_each_maker(op, [&](int maker) {
      chains.head[op] = std::max(chains.head[op], chains.head[maker] + own(maker));
    });
  for (int op = count - 1; op >= 0; --op)
    for_each_maker(op, [&](int maker) {
      chains.tail[maker] = std::max(chains.tail[maker], chains.tail[op] + own(op));
    });
  return chains;
}

}  // namespace

Seconds step_bound(const PlacedGraph& placed, const Plan& plan, const Deployment& deployment) {
  const Graph& graph = placed.graph;
  const KernelTimes kernels(placed, plan, deployment);
  std::vector<OpTime> times;
  for (int i = 0; i < std::ssize(graph.ops()); ++i) times.push_back(kernels.time({i}));
  Chains chains = chains_of(graph, times);
  if (plan.collective_matmul != 1) {  // what follows a product may begin with its first piece
    std::ranges::fill(chains.head, 0);
    std::ranges::fill(chains.tail, 0);
  }
  const Meshes& meshes = placed.sharded.meshes;
  double bound = 0;
  for (const NamedMesh& mesh : meshes) {
    std::vector<Job> jobs;
    for (int i = 0; i < std::ssize(graph.ops()); ++i)
      if (*placed.sharded.at(OpId{i}).mesh == *mesh.mesh)
        jobs.push_back({chains.head[i], times[i].all, chains.tail[i]});
    bound = std::max(bound, longest_schedule(std::move(jobs)));
  }
  return Seconds(bound);
}

}  // namespace tessera
