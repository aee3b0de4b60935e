#include "planner/search/candidates/long_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "planner/placement/search_policy.h"

namespace tessera {
namespace {

/// Calls visit(key, a, b) for the keys of both maps; one that is not there is 0.
template <class Value, class Visit>
void for_each_key(const std::map<std::string, Value>& a, const std::map<std::string, Value>& b,
                  const Visit& visit) {
  const auto value = [](const std::map<std::string, Value>& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? Value(0) : found->second;
  };
  for (const auto& [key, unused] : a) visit(key, value(a, key), value(b, key));
  for (const auto& [key, own] : b)
    if (!a.contains(key)) visit(key, Value(0), own);
}

}  // namespace

int64_t device_groups(const Plan& plan) {
  std::set<std::vector<Rank>> groups;
  for (const NamedMesh& mesh : plan.placed()) groups.insert(mesh.mesh->ranks());
  return std::ssize(groups);
}

int64_t batch_rows(const Graph& graph) {
  for (ValueId input : graph.inputs())
    if (graph.type(input).shape.size() > 0) return graph.type(input).shape[0];
  return 1;
}

std::shared_ptr<const Graph> ShorterGraphs::get(int64_t rows,
                                                const std::function<Graph(int64_t)>& make) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Graph>& graph = made_[rows];
  if (!graph) graph = std::make_shared<const Graph>(make(rows));
  return graph;
}

bool is_long(const Graph& graph, int64_t micro_batches) {
  if (micro_batches > kSearchPolicy.whole_micro_batches) return true;
  const auto ops =
      std::ranges::count_if(graph.ops(), [](const Op& op) { return op.role != Role::kOptimizer; });
  return ops * micro_batches > kSearchPolicy.whole_ops;
}

bool is_predicted(const Graph& graph, const Plan& plan) {
  return plan.accumulate == 1 && plan.schedule != PipelineKind::kForwardThenBackward &&
         plan.micro_batches > shorter_counts(plan).back() && is_long(graph, plan.micro_batches);
}

std::vector<ShorterStep> shorter_steps(const Graph& graph, const Plan& plan, ShorterGraphs& graphs,
                                       const std::function<Graph(int64_t)>& make) {
  const int64_t rows = batch_rows(graph) / plan.micro_batches;
  std::vector<ShorterStep> steps;
  for (const int64_t count : shorter_counts(plan)) {
    ShorterStep step{graphs.get(rows * count, make), plan};
    step.plan.micro_batches = count;
    step.plan.fingerprint.reset();  // of the whole step
    steps.push_back(std::move(step));
  }
  return steps;
}

std::array<int64_t, 2> shorter_counts(const Plan& plan) {
  const auto stages = std::ssize(plan.placed());
  // The first micro-batch begins the sums of gradients, and exchanges of the last ones wait.
  if (stages == 1) return {3, 4};
  if (const int64_t groups = device_groups(plan); groups < stages) {
    const int64_t count = stages + plan.micro_batches % groups;
    return {count, count + groups};
  }
  // A micro-batch is at each stage, and transfers alternate with passes.
  const int64_t filled = std::max<int64_t>(stages, 3), further = std::max<int64_t>(filled / 4, 1);
  switch (plan.schedule) {
    case PipelineKind::kOneForwardOneBackward: return {filled, filled + further};
    // Nearly twice as many forwards as stages are ahead at the first one.
    case PipelineKind::kEagerOneForwardOneBackward: return {filled, 2 * filled};
    // Weight gradients wait for the end until the pipeline has used the time for them.
    case PipelineKind::kZeroBubbleH1:
      return {filled + (filled + 1) / 2, filled + (filled + 1) / 2 + further};
    // So many forwards are ahead of the first backward that with twice as many micro-batches as
    // stages the pipeline is not in its steady state yet.
    case PipelineKind::kZeroBubbleH2: return {3 * filled, 3 * filled + 2 * further};
    default: return {2 * filled, 2 * filled + further};
  }
}

double LongStep::at(double fewer, double more) const {
  const double steps =
      static_cast<double>(count - more_count) / static_cast<double>(more_count - fewer_count);
  return more + steps * (more - fewer);
}

int64_t LongStep::at(int64_t fewer, int64_t more) const {
  return std::llround(at(static_cast<double>(fewer), static_cast<double>(more)));
}

Seconds LongStep::at(Seconds fewer, Seconds more) const {
  return Seconds(at(fewer.value(), more.value()));
}

Bytes LongStep::at(Bytes fewer, Bytes more) const {
  return Bytes(at(fewer.value(), more.value()));
}

std::vector<RankMemoryNeed> LongStep::memory(const std::vector<RankMemoryNeed>& fewer,
                                             std::vector<RankMemoryNeed> more) const {
  for (size_t i = 0; i < more.size(); ++i) {
    if (more[i].batch == Bytes(0)) continue;  // it does not fit, so no task is there
    const Bytes batch = at(fewer.at(i).batch, more[i].batch);
    more[i].arena += batch - more[i].batch;
    more[i].batch = batch;
  }
  return more;
}

StepPrediction LongStep::prediction(const StepPrediction& fewer, const StepPrediction& more) const {
  if (fewer.ranks.size() != more.ranks.size())
    throw InternalError("two predictions of one plan have different ranks");
  StepPrediction result;
  result.step = at(fewer.step, more.step);
  result.memory = memory(fewer.memory, more.memory);
  result.executed = Flops(at(fewer.executed.value(), more.executed.value()));
  result.padding = Flops(at(fewer.padding.value(), more.padding.value()));
  result.peak_flops_per_second = more.peak_flops_per_second;
  for (size_t i = 0; i < more.ranks.size(); ++i) {
    const RankBreakdown &a = fewer.ranks[i], &b = more.ranks[i];
    RankBreakdown rank{.rank = b.rank, .representative = b.representative};
    rank.compute = at(a.compute, b.compute);
    rank.idle = at(a.idle, b.idle);
    for_each_key(a.exposed, b.exposed, [&](const std::string& axes, Seconds x, Seconds y) {
      rank.exposed[axes] = at(x, y);
    });
    for_each_key(a.exchanges, b.exchanges, [&](const std::string& axes, Seconds x, Seconds y) {
      rank.exchanges[axes] = at(x, y);
    });
    for (const auto& [mesh, passes] : b.passes) {
      const auto found = a.passes.find(mesh);
      const PassTimes few = found == a.passes.end() ? PassTimes{} : found->second;
      rank.passes[mesh] = {at(few.forward, passes.forward), at(few.backward, passes.backward),
                           at(few.once, passes.once)};
    }
    result.ranks.push_back(std::move(rank));
  }
  return result;
}

Traffic LongStep::traffic(const Traffic& fewer, const Traffic& more) const {
  Traffic result;
  result.exchanges = at(fewer.exchanges, more.exchanges);
  result.bytes = at(fewer.bytes, more.bytes);
  result.messages = at(fewer.messages, more.messages);
  result.max_bytes = at(fewer.max_bytes, more.max_bytes);
  result.max_messages = at(fewer.max_messages, more.max_messages);
  result.largest_of_variables = at(fewer.largest_of_variables, more.largest_of_variables);
  for_each_key(fewer.bytes_over, more.bytes_over, [&](const std::string& axes, Bytes x, Bytes y) {
    result.bytes_over[axes] = at(x, y);
  });
  return result;
}

}  // namespace tessera
