// Candidates for the plan of a graph on a cluster, and what each of them costs: each is compiled
// and simulated. This module knows graphs, plans and clusters. It knows no configurations and opens
// no files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/solver/least_changes.h"
#include "base/units.h"
#include "cluster/cluster/cluster.h"
#include "compiler/lower/lower.h"
#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"
#include "planner/search/candidates/long_steps.h"
#include "planner/search/internal/candidates/traffic.h"
#include "simulator/step/step_prediction.h"

namespace tessera {

struct Candidate;

/// What a plan is wanted for. Both outlive what is made of it.
struct PlanRequest {
  const Graph& graph;  // of a training step, serial
  const Cluster& cluster;
  /// What the candidates share.
  std::shared_ptr<RewriteCache> rewrites = std::make_shared<RewriteCache>();
  /// Does a rank exchange while its kernels run? By default where its device is no core.
  std::optional<bool> prefetches = {};
  /// The graph of the same step for a batch of other rows. Without it steps of many micro-batches
  /// are compiled as a whole.
  std::function<Graph(int64_t rows)> graph_of_rows = {};
  std::shared_ptr<ShorterGraphs> shorter_graphs = std::make_shared<ShorterGraphs>();
  /// The programs that a run has loaded beside the step (PredictOptions::beside). It is asked for
  /// those that may be the answer.
  std::function<std::vector<std::shared_ptr<const TaskGraph>>(const Candidate&)> other_programs =
      {};

  bool prefetches_exchanges() const;
};

/// The problem of which a searched plan is the best result that was found (placement_search). Its
/// times are of kernels and exchanges one after the other.
struct SearchedProblem {
  Seconds time{0};
  Seconds bound{0};  // no result of this problem takes less
  int nodes = 0, edges = 0;
  int64_t strategies = 0, dropped_strategies = 0;
  Bytes counted_memory{0};  // what the problem counts on the fullest rank
  // What is needed to make it again:
  double overlap = 0;                        // SearchProblemOptions
  Bytes limit{0};                            // of memory
  std::vector<solver::Change> changes = {};  // of its best result

  double gap() const { return time > Seconds(0) ? 1 - bound.value() / time.value() : 0; }
};

/// A step on the clock of schedules (compiler/schedule/clock.h).
struct EstimatedStep {
  Seconds step{0};
  /// By mesh of the plan: kernels of a rank, and exchanges inside of the stage.
  std::vector<Seconds> busy;
};

/// A plan that may be the best one.
struct Candidate {
  enum class Source {
    kOneDevice,     // the serial plan
    kPreset,        // degrees of parallelism
    kCompared,      // a plan that the user gives
    kSearch,        // found by a search over placements
    kCached,        // found by an earlier plan search, for another cluster or limit
    kPipeline,      // found by a search over stages
    kMemorySaving,  // a plan that the user gives, as a memory-saving variant
  };
  Source source = Source::kOneDevice;
  std::string name;  // "one device", "dp=2,tp=2", the name of a file
  Plan plan;
  std::optional<SearchedProblem> problem = {};  // of kSearch
  /// Of many micro-batches: two of shorter_counts(), from which the step is predicted; or empty,
  /// where evaluate() makes them if it needs any.
  std::vector<ShorterStep> shorter = {};
  /// With shorter steps: the step as the search estimates it, which stands for a simulation where
  /// too few ranks behave alike.
  std::optional<EstimatedStep> estimate = {};
  /// Of stages that are divided as presets divide (staged_plan in planner/presets/presets.h):
  /// Preset::zero.
  std::optional<int> zero = {};
  /// Of kPipeline: the plan whose marks gave the shardings.
  std::shared_ptr<const Plan> marked = nullptr;
};
std::string_view to_text(Candidate::Source source);  // "one device", "preset", "pipeline", ...

/// The rank whose memory is fullest, and its device.
struct FullestRank {
  Rank rank = 0;
  std::string device;  // "n0/3"
  RankMemoryNeed memory;

  /// Above 0 when it does not fit.
  Bytes missing() const { return memory.all() - memory.capacity; }
};

/// The step of a rank in the mean over the ranks. The parts add up to the step.
struct MeanBreakdown {
  Seconds compute{0};
  std::map<std::string, Seconds> exposed = {};  // by the mesh axes of the exchange
  Seconds idle{0};
};

/// A candidate that was compiled, and simulated unless it does not fit.
struct EvaluatedCandidate {
  Candidate candidate;             // its plan has the prices of the cluster (Plan::cost)
  StepPrediction prediction = {};  // without its timeline
  MeanBreakdown parts = {};
  FullestRank fullest = {};
  Traffic traffic = {};
  uint64_t program = 0;  // PlannedMemory::program
  /// Kernels and exchanges of the programs that were simulated: a measure of the work.
  int64_t simulated_steps = 0;
  /// false: the step is a lower bound (planner/search/internal/candidates/step_bound.h), and its
  /// parts and the traffic are not known. Its memory is that of the compiled program.
  bool is_simulated = true;
  /// Is its memory that of a whole run? See complete_memory().
  bool has_whole_memory = false;

  bool fits() const { return prediction.fits(); }
  int ranks() const { return candidate.plan.rank_count(); }
  Seconds step() const { return prediction.step; }
};

/// A candidate that does not compile, or has more ranks than the cluster has devices.
struct UnusableCandidate {
  std::string name;
  std::string reason;              // what the error says happened
  std::string why = {}, fix = {};  // the rest of the error
};

/// A candidate that was not compiled after its placements, since its kernels alone take longer
/// than the step of another one.
struct ExcludedCandidate {
  Candidate::Source source = Candidate::Source::kPreset;
  std::string name;
  int ranks = 1;
  Seconds bound{0};  // of its step (planner/search/internal/candidates/step_bound.h)
};

struct Evaluations {
  std::vector<EvaluatedCandidate> evaluated;  // in the order of the candidates
  std::vector<ExcludedCandidate> excluded;
  std::vector<UnusableCandidate> unusable;
  int64_t not_tried = 0;  // because `stop` said so
};

struct EvaluationOptions {
  /// Called after each candidate, by several threads, one at a time.
  std::function<void(const std::string& name)> progress = {};
  /// Asked before each candidate; none is begun after it has returned true. Never: all are tried.
  std::function<bool()> stop = {};
  /// Does `stop` return true after a time? Then a few presets come before the searches.
  bool has_time_limit = false;
  /// Called with the best candidate so far whenever another one is the best, by one thread.
  std::function<void(const EvaluatedCandidate& best)> improved = {};
  /// A step that is known. Presets and plans of a search that cannot be as fast are excluded.
  std::optional<Seconds> limit = {};
  /// Those whose simulated step is above the limit, and those of this program are excluded, too.
  bool drops_slower = false;
  std::optional<uint64_t> known_program = {};  // EvaluatedCandidate::program
};

/// Compiles and simulates candidates, on all cores. Their placements and programs are not checked.
/// What does not fit the memory of its devices is not compiled after its arenas, and not
/// simulated, except for the serial plan and those that the user compares. Of one whose step is
/// predicted the shorter steps are compiled and simulated instead
/// (planner/search/candidates/long_steps.h).
///   ensures  the result does not depend on the number of cores unless `stop` returns true
///   throws   what is no UserError (78) of a candidate, and no too small limit of recompute "auto"
Evaluations evaluate(const PlanRequest& request, std::vector<Candidate> candidates,
                     const EvaluationOptions& options = {});

/// Makes the memory of a candidate that of a run: with PlanRequest::other_programs, and for all
/// micro-batches of a step that was predicted from shorter ones.
///   ensures  has_whole_memory; it may not fit any more
void complete_memory(const PlanRequest& request, EvaluatedCandidate& known);

/// Gives the plan the prices of the cluster, and compiles it.
///   checked  are the placements and the program checked? It takes a third of the time
///   throws   UserError as compile and identity_mapping
Compiled compile_on(const PlanRequest& request, Plan& plan, bool checked = true);

}  // namespace tessera
