#include "search/candidate.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <variant>

#include "base/error.h"
#include "base/on_all_cores.h"
#include "base/random.h"

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

bool is_host(const Cluster& cluster) {
  return cluster.type(0).kind == HardwareKind::kCpu;
}

EvaluatedCandidate evaluated(const PlanRequest& request, Candidate candidate) {
  Compiled compiled = compile_on(request, candidate.plan, false);
  const Deployment deployment = in_order(request.cluster, candidate.plan.rank_count());
  EvaluatedCandidate result{std::move(candidate), {}, {}, {}, {}, {}, 0};
  result.rewritten = rewritten_fingerprint(compiled);
  const auto tasks = std::make_shared<const TaskGraph>(std::move(compiled.tasks));
  result.program = stable_hash(to_text(*tasks));
  result.traffic = traffic_of(*tasks);
  result.prediction =
      predict_step(tasks, deployment, {.prefetch_exchanges = !is_host(request.cluster)});
  result.prediction.timeline = {};
  result.parts = parts_of(result.prediction);
  result.fullest = fullest_of(result.prediction, deployment);
  return result;
}

using Outcome = std::variant<std::monostate, EvaluatedCandidate, UnusableCandidate>;

Outcome outcome_of(const PlanRequest& request, Candidate candidate) {
  const std::string name = candidate.name;
  try {
    return evaluated(request, std::move(candidate));
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return UnusableCandidate{name, error.what_happened()};
  }
}

}  // namespace

std::string_view to_text(Candidate::Source source) {
  switch (source) {
    case Candidate::Source::kOneDevice: return "one device";
    case Candidate::Source::kPreset: return "preset";
    case Candidate::Source::kCompared: return "compared";
    case Candidate::Source::kSearch: return "search";
  }
  throw InternalError("a candidate has no source");
}

Compiled compile_on(const PlanRequest& request, Plan& plan, bool checked) {
  const Deployment deployment = in_order(request.cluster, plan.rank_count());
  std::vector<MeshPtr> meshes;
  for (const NamedMesh& mesh : plan.placed()) meshes.push_back(mesh.mesh);
  plan.cost = cost_of(deployment, meshes);
  CompileOptions options;
  options.check_placements = checked;
  return compile(request.graph, plan, options);
}

Evaluations evaluate(const PlanRequest& request, std::vector<Candidate> candidates,
                     const EvaluationOptions& options) {
  std::vector<Outcome> outcomes(candidates.size());
  std::mutex mutex;
  const auto locked = [&mutex](const auto& work) {
    const std::lock_guard lock(mutex);
    return work();
  };
  on_all_cores(std::ssize(candidates), [&](int64_t i) {
    if (options.stop && locked(options.stop)) return;
    const std::string name = candidates[i].name;
    outcomes[i] = outcome_of(request, std::move(candidates[i]));
    if (options.progress) locked([&] { options.progress(name); });
  });
  Evaluations result;
  for (Outcome& outcome : outcomes) {
    if (auto* found = std::get_if<EvaluatedCandidate>(&outcome))
      result.evaluated.push_back(std::move(*found));
    else if (auto* refused = std::get_if<UnusableCandidate>(&outcome))
      result.unusable.push_back(std::move(*refused));
    else
      ++result.not_tried;
  }
  return result;
}

}  // namespace tessera
