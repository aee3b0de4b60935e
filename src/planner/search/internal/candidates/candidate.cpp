#include "planner/search/internal/candidates/candidate.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/threads/on_all_cores.h"
#include "ir/precision/precision.h"
#include "planner/search/internal/candidates/step_bound.h"

namespace tessera {
namespace {

FullestRank fullest_of(const StepPrediction& prediction, const Deployment& deployment) {
  const auto share = [](const RankMemoryNeed& memory) {
    return static_cast<double>(memory.all().value()) / static_cast<double>(memory.capacity.value());
  };
  const size_t at =
      std::ranges::max_element(prediction.memory, {}, share) - prediction.memory.begin();
  const Rank rank = prediction.ranks[at].rank;
  return {rank, deployment.cluster->name(deployment.device(rank)), prediction.memory[at]};
}

MeanBreakdown parts_of(const StepPrediction& prediction) {
  const double share = 1.0 / static_cast<double>(prediction.ranks.size());
  MeanBreakdown parts;
  for (const RankBreakdown& rank : prediction.ranks) {
    parts.compute += Seconds(share * rank.compute.value());
    for (const auto& [axes, time] : rank.exposed)
      parts.exposed[axes] += Seconds(share * time.value());
    parts.idle += Seconds(share * rank.idle.value());
  }
  return parts;
}

/// Are kernels joined? Then a simulation alone knows which tensors are in memory.
bool fuses(const Cluster& cluster) {
  return cluster.description().runtime.fusion != Fusion::kNone;
}

bool may_be_excluded(const Candidate& candidate) {
  return candidate.source != Candidate::Source::kOneDevice &&
         candidate.source != Candidate::Source::kCompared;
}

/// Gives the plan the prices of the cluster.
void set_cost(const PlanRequest& request, Plan& plan) {
  const Deployment deployment = identity_mapping(request.cluster, plan.hardware());
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : plan.placed()) meshes.push_back(mesh.mesh);
  plan.cost = cost_of(deployment, meshes);
}

CompileOptions compile_options(const PlanRequest& request, bool checked) {
  CompileOptions options;
  options.check_placements = options.verify = checked;
  options.rewrites = request.rewrites;
  return options;
}

using Outcome =
    std::variant<std::monostate, EvaluatedCandidate, ExcludedCandidate, UnusableCandidate>;

/// A candidate with what is known of its program before it is simulated.
EvaluatedCandidate planned(Candidate candidate, PlannedMemory& memory) {
  EvaluatedCandidate result{.candidate = std::move(candidate)};
  result.program = memory.program;
  return result;
}

///   limit  of a longer step only the step is found
EvaluatedCandidate simulated(const PlanRequest& request, Candidate candidate, PlannedMemory memory,
                             Compiled compiled, const std::optional<Seconds>& limit = {}) {
  const Deployment deployment = identity_mapping(request.cluster, candidate.plan.hardware());
  EvaluatedCandidate result = planned(std::move(candidate), memory);
  const auto tasks = std::make_shared<const TaskGraph>(std::move(compiled.tasks));
  compiled = {};
  result.traffic = traffic_of(*tasks);
  for (const Task& task : tasks->tasks) result.simulated_steps += 1 + std::ssize(task.steps);
  result.prediction = predict_step(tasks, deployment,
                                   {.prefetch_exchanges = request.prefetches_exchanges(),
                                    .products = type_of_products(request.graph),
                                    .has_timeline = false,
                                    .limit = limit});
  if (limit && result.step() > *limit) return result;
  result.parts = parts_of(result.prediction);
  result.fullest = fullest_of(result.prediction, deployment);
  return result;
}

/// A candidate that does not fit: its step is a bound.
EvaluatedCandidate over_memory(const PlanRequest& request, Candidate candidate,
                               PlannedMemory memory, Seconds bound) {
  const Deployment deployment = identity_mapping(request.cluster, candidate.plan.hardware());
  EvaluatedCandidate result = planned(std::move(candidate), memory);
  result.prediction.step = bound;
  result.prediction.memory = memory_needs(memory.graph, deployment);
  for (const Rank rank : ranks(memory.graph)) result.prediction.ranks.push_back({.rank = rank});
  result.fullest = fullest_of(result.prediction, deployment);
  result.is_simulated = false;
  return result;
}

/// Of a candidate whose step is estimated: without its prediction.
EvaluatedCandidate unsimulated(const PlanRequest& request, Candidate candidate,
                               PlannedMemory memory, const Compiled& compiled) {
  EvaluatedCandidate result = planned(std::move(candidate), memory);
  result.traffic = traffic_of(compiled.tasks);
  result.prediction.memory = memory_needs(
      compiled.tasks, identity_mapping(request.cluster, result.candidate.plan.hardware()));
  return result;
}

/// Compiles a candidate up to where it is known that it is slower than a limit, or does not fit.
class EarlyExitCompilation {
 public:
  EarlyExitCompilation(const PlanRequest& request, const Candidate& candidate,
                       const EvaluationOptions& options)
      : candidate_(candidate),
        options_(options),
        deployment_(identity_mapping(request.cluster, candidate.plan.hardware())) {
    const EarlyExits gates{[this](const PlacedGraph& placed) { return may_be_faster(placed); },
                           [this](const PlannedMemory& planned) { return fits(planned); }};
    compiled = compile_if(request.graph, candidate.plan, compile_options(request, false), gates);
  }

  std::optional<Compiled> compiled;     // where it is to be simulated
  std::optional<PlannedMemory> memory;  // where it may be faster
  std::optional<Seconds> bound;         // of the step, where it is not to be simulated
  bool is_known = false;                // is it EvaluationOptions::known_program?

 private:
  bool may_be_faster(const PlacedGraph& placed) {
    placed_ = &placed;
    if (!options_.limit || !may_be_excluded(candidate_)) return true;
    bound = step_bound(placed, candidate_.plan, deployment_);
    return *bound <= *options_.limit;
  }
  bool fits(const PlannedMemory& planned) {
    memory = planned;
    if (options_.known_program == planned.program) {
      is_known = true;
      return false;
    }
    const bool counts_arena = !fuses(*deployment_.cluster);
    const auto may_fit = [&](const RankMemoryNeed& need) {
      return (counts_arena ? need.all() : need.variables + need.reserve) <= need.capacity;
    };
    if (!may_be_excluded(candidate_) ||
        std::ranges::all_of(memory_needs(planned.graph, deployment_), may_fit))
      return true;
    if (!bound) bound = step_bound(*placed_, candidate_.plan, deployment_);
    return false;
  }

  const Candidate& candidate_;
  const EvaluationOptions& options_;
  const Deployment deployment_;
  const PlacedGraph* placed_ = nullptr;  // while it is compiled
};

/// The prediction of an estimated step: what a rank is not busy, it waits.
StepPrediction prediction_of(const PlanRequest& request, const Plan& plan,
                             const EstimatedStep& estimate) {
  StepPrediction prediction;
  prediction.step = estimate.step;
  const Deployment deployment = identity_mapping(request.cluster, plan.hardware());
  const DType products = type_of_products(request.graph);
  for (size_t i = 0; i < plan.meshes.size(); ++i)
    for (const Rank rank : plan.meshes[i].mesh->ranks()) {
      prediction.ranks.push_back({.rank = rank,
                                  .compute = estimate.busy[i],
                                  .idle = estimate.step - estimate.busy[i],
                                  .representative = plan.meshes[i].mesh->ranks().front()});
      prediction.peak_flops_per_second += deployment.type(rank).peak(products);
    }
  std::ranges::sort(prediction.ranks, {}, &RankBreakdown::rank);
  return prediction;
}

/// One of the shorter steps of a candidate.
EvaluatedCandidate shorter_step(const PlanRequest& request, const Candidate& candidate,
                                const ShorterStep& step) {
  const PlanRequest few{
      .graph = *step.graph, .cluster = request.cluster, .prefetches = request.prefetches};
  Candidate part{candidate.source, candidate.name, step.plan};
  set_cost(few, part.plan);
  const EvaluationOptions unlimited;
  EarlyExitCompilation made(few, part, unlimited);
  PlannedMemory memory = *std::move(made.memory);
  if (!made.compiled) return over_memory(few, std::move(part), std::move(memory), *made.bound);
  return candidate.estimate
             ? unsimulated(few, std::move(part), std::move(memory), *made.compiled)
             : simulated(few, std::move(part), std::move(memory), *std::move(made.compiled));
}

/// Of a candidate with two shorter steps.
///   is_alone  is no other one evaluated at the same time? Else one of its steps is in memory
EvaluatedCandidate extrapolated(const PlanRequest& request, Candidate candidate, bool is_alone) {
  std::vector<std::optional<EvaluatedCandidate>> shorter(candidate.shorter.size());
  const auto evaluate_step = [&](int64_t i) {
    shorter[i] = shorter_step(request, candidate, candidate.shorter[i]);
  };
  if (is_alone)
    on_all_cores(std::ssize(shorter), evaluate_step);
  else
    for (int64_t i = 0; i < std::ssize(shorter); ++i) evaluate_step(i);
  const EvaluatedCandidate &fewer = shorter.at(0).value(), &more = shorter.at(1).value();
  const LongStep step{fewer.candidate.plan.micro_batches, more.candidate.plan.micro_batches,
                      candidate.plan.micro_batches};
  EvaluatedCandidate result{.candidate = std::move(candidate)};
  result.program = stable_hash(std::to_string(more.program) + result.candidate.name);
  result.is_simulated = fewer.is_simulated && more.is_simulated;
  result.simulated_steps = fewer.simulated_steps + more.simulated_steps;
  const Candidate& own = result.candidate;
  if (!result.is_simulated) {
    // Bounds grow with the micro-batches as steps do.
    result.prediction.step =
        fewer.is_simulated ? more.step() : step.prediction(fewer.prediction, more.prediction).step;
    result.prediction.ranks = more.prediction.ranks;
  } else {
    result.traffic = step.traffic(fewer.traffic, more.traffic);
    result.prediction = own.estimate ? prediction_of(request, own.plan, *own.estimate)
                                     : step.prediction(fewer.prediction, more.prediction);
    result.parts = parts_of(result.prediction);
  }
  result.prediction.memory = step.memory(fewer.prediction.memory, more.prediction.memory);
  result.fullest =
      fullest_of(result.prediction, identity_mapping(request.cluster, own.plan.hardware()));
  return result;
}

ExcludedCandidate excluded(const Candidate& candidate, Seconds bound) {
  return {candidate.source, candidate.name, candidate.plan.rank_count(), bound};
}

Outcome evaluated(const PlanRequest& request, Candidate candidate, const EvaluationOptions& options,
                  bool is_alone) {
  set_cost(request, candidate.plan);
  if (candidate.shorter.empty() && request.graph_of_rows &&
      is_predicted(request.graph, candidate.plan))
    candidate.shorter = shorter_steps(request.graph, candidate.plan, *request.shorter_graphs,
                                      request.graph_of_rows);
  if (!candidate.shorter.empty()) return extrapolated(request, std::move(candidate), is_alone);
  EarlyExitCompilation made(request, candidate, options);
  if (!made.memory || made.is_known) return excluded(candidate, made.bound.value_or(Seconds(0)));
  PlannedMemory memory = *std::move(made.memory);
  if (!made.compiled)
    return over_memory(request, std::move(candidate), std::move(memory), *made.bound);
  const std::optional<Seconds> limit = options.drops_slower ? options.limit : std::nullopt;
  EvaluatedCandidate result =
      simulated(request, std::move(candidate), std::move(memory), *std::move(made.compiled), limit);
  if (limit && result.step() > *limit) return excluded(result.candidate, result.step());
  return result;
}

/// Steps of more micro-batches have more tasks to simulate: begun last, one of them would keep one
/// core busy while the others wait.
std::vector<size_t> longest_first(const std::vector<Candidate>& candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t i) { return candidates[i].plan.micro_batches; });
  return order;
}

Outcome outcome_of(const PlanRequest& request, Candidate candidate,
                   const EvaluationOptions& options, bool is_alone) {
  const std::string name = candidate.name;
  const bool has_limit = candidate.plan.recompute.kind == Recompute::Kind::kAuto;
  try {
    return evaluated(request, std::move(candidate), options, is_alone);
  } catch (const UserError& error) {
    const bool is_below_limit = has_limit && error.exit_code() == ExitCode::kNoPlan;
    if (error.exit_code() != ExitCode::kBadConfig && !is_below_limit) throw;
    return UnusableCandidate{name, error.what_happened(), error.why(), error.fix()};
  }
}

}  // namespace

bool PlanRequest::prefetches_exchanges() const {
  return prefetches.value_or(runs_exchanges_ahead(cluster));
}

std::string_view to_text(Candidate::Source source) {
  switch (source) {
    case Candidate::Source::kOneDevice: return "one device";
    case Candidate::Source::kPreset: return "preset";
    case Candidate::Source::kCompared: return "compared";
    case Candidate::Source::kSearch: return "search";
    case Candidate::Source::kCached: return "cached";
    case Candidate::Source::kPipeline: return "pipeline";
    case Candidate::Source::kMemorySaving: return "memory-saving";
  }
  throw InternalError("a candidate has no source");
}

void complete_memory(const PlanRequest& request, EvaluatedCandidate& known) {
  if (std::exchange(known.has_whole_memory, true) || fuses(request.cluster)) return;
  const Candidate& candidate = known.candidate;
  PredictOptions options;
  if (request.other_programs) options.beside = request.other_programs(candidate);
  if (options.beside.empty() && candidate.shorter.empty()) return;
  std::vector<RankMemoryNeed>& memory = known.prediction.memory;
  const Deployment deployment = identity_mapping(request.cluster, candidate.plan.hardware());
  const EarlyExits exits{.in_memory = [&](const PlannedMemory& planned) {
    std::vector<RankMemoryNeed> whole = memory_needs(planned.graph, deployment, options);
    for (size_t i = 0; i < whole.size(); ++i) whole[i].batch = memory[i].batch;
    memory = std::move(whole);
    return false;
  }};
  compile_if(request.graph, candidate.plan, compile_options(request, false), exits);
  known.fullest = fullest_of(known.prediction, deployment);
}

Compiled compile_on(const PlanRequest& request, Plan& plan, bool checked) {
  set_cost(request, plan);
  return compile(request.graph, plan, compile_options(request, checked));
}

Evaluations evaluate(const PlanRequest& request, std::vector<Candidate> candidates,
                     const EvaluationOptions& options) {
  std::vector<Outcome> outcomes(candidates.size());
  std::mutex mutex;
  const auto locked = [&mutex](const auto& work) {
    const std::lock_guard lock(mutex);
    return work();
  };
  const std::vector<size_t> order = longest_first(candidates);
  on_all_cores(std::ssize(candidates), [&](int64_t turn) {
    if (options.stop && locked(options.stop)) return;
    const size_t i = order[turn];
    const std::string name = candidates[i].name;
    const bool is_alone = candidates.size() == 1;
    outcomes[i] = outcome_of(request, std::move(candidates[i]), options, is_alone);
    if (options.progress) locked([&] { options.progress(name); });
  });
  Evaluations result;
  for (Outcome& outcome : outcomes) {
    if (auto* found = std::get_if<EvaluatedCandidate>(&outcome))
      result.evaluated.push_back(std::move(*found));
    else if (auto* excluded = std::get_if<ExcludedCandidate>(&outcome))
      result.excluded.push_back(std::move(*excluded));
    else if (auto* refused = std::get_if<UnusableCandidate>(&outcome))
      result.unusable.push_back(std::move(*refused));
    else
      ++result.not_tried;
  }
  return result;
}

}  // namespace tessera
