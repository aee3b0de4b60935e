#include "planner/search/find_plan.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/threads/stopwatch.h"
#include "compiler/plan/preset.h"
#include "planner/pipeline/device_runs.h"
#include "planner/placement/search_constraints.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "planner/search/candidates/step_floor.h"
#include "planner/search/internal/candidates/memory_saving_presets.h"
#include "planner/search/internal/keys/key_search.h"
#include "planner/search/internal/savings/offloaded_states.h"
#include "planner/search/internal/savings/recompute_limits.h"
#include "planner/search/internal/sources/searched_placements.h"

namespace tessera {
namespace {

/// The cluster with so much memory on each device.
Cluster with_memory(const Cluster& cluster, Bytes memory) {
  ClusterDescription description = cluster.description();
  for (DeviceType& type : description.types) type.memory = memory;
  return Cluster(std::move(description));
}

bool is_pipeline(const Candidate& candidate) {
  return candidate.plan.meshes.size() > 1;
}

/// What the key search does not change in a plan at small steps.
using KindOfPlan = std::tuple<Candidate::Source, bool, bool, bool>;
KindOfPlan kind_of(const Candidate& candidate) {
  return {candidate.source, is_pipeline(candidate), candidate.zero.value_or(0) > 0,
          candidate.plan.recompute.kind != Recompute::Kind::kNone};
}

/// The same for exactly n ranks.
PlanConstraints with_ranks(PlanConstraints constraints, int ranks) {
  constraints.ranks = ranks;
  constraints.may_use_fewer = false;
  return constraints;
}

/// A preset that does not fit and may be faster than the best candidate.
struct OverMemory {
  Candidate preset;
  Seconds step{0};       // a bound
  RankMemoryNeed need;   // of the fullest rank
  bool has_room = true;  // do its variables fit, which no micro-batches make less?
};

/// Could the preset fit on one mesh with more micro-batches? k times as many keep at least a k-th
/// of the arena.
bool may_fit(const OverMemory& over_memory, const Candidate& more) {
  const int64_t times = more.plan.micro_batches / over_memory.preset.plan.micro_batches;
  return over_memory.need.all() - over_memory.need.arena +
             Bytes(over_memory.need.arena.value() / times) <=
         over_memory.need.capacity;
}

struct SearchStage;

class PlanSearch {
 public:
  PlanSearch(const PlanRequest& request, const PlanSearchOptions& options)
      : request_(request),
        options_(options),
        updates_(fixes_decision(options.constraints, kZeroKey)
                     ? UpdateSavedByZero()
                     : UpdateSavedByZero(request.graph, request.cluster.type(0).cost)),
        evaluation_(options.evaluation) {}

  PlanSearchResult result();

  // ---- what the stages do: each adds candidates to the result ----

  void add_given() {
    const PlanConstraints& constraints = options_.constraints;
    if (constraints.mesh)  // refuses marks that contradict each other
      constraints_of_marks(request_.graph, constraints.mesh, constraints.marks);
    std::vector<Candidate> candidates{one_device(constraints)};
    std::ranges::copy(options_.compared, std::back_inserter(candidates));
    add(std::move(candidates));
  }

  void add_first_presets() {
    add(preset_grid(request_, options_.constraints, kSearchPolicy.first_presets).candidates);
  }

  /// Is the time over? What has begun goes on.
  bool has_ended() const { return evaluation_.stop && evaluation_.stop(); }

  bool are_many() const { return options_.constraints.ranks > kSearchPolicy.many_ranks; }
  /// Of more ranks a change takes up to half a minute and gigabytes.
  bool changes_keys() const {
    return options_.searches_keys && options_.constraints.ranks <= 4 * kSearchPolicy.many_ranks;
  }
  bool is_limited() const { return evaluation_.has_time_limit; }
  bool has_best() const { return result_.best.has_value(); }
  bool has_presets() const { return has_presets_; }
  const PlanRequest& request() const { return request_; }
  const PlanSearchOptions& options() const { return options_; }

  /// The result of the searches on each smaller number of ranks that may have a faster plan. Their
  /// presets are among all presets.
  void add_results_of_fewer() {
    for (const int ranks : rank_counts(options_.constraints)) {
      if (ranks == options_.constraints.ranks || !may_be_faster(ranks)) continue;
      if (has_ended()) {
        ++result_.not_tried;
        continue;
      }
      PlanSearchResult fewer =
          find_plan(request_, {.constraints = with_ranks(options_.constraints, ranks),
                               .sources = options_.sources_of_fewer(),
                               .tries_presets = false,
                               .offloads = false,
                               .excludes = options_.excludes,
                               .evaluation = options_.evaluation});
      result_.not_tried += fewer.not_tried;
      if (fewer.best) keep(std::move(fewer.candidates[*fewer.best]), result_);
      choose_best(result_, options_.constraints);
    }
  }

  /// Where nothing fits: placements that need less than the nearest candidate, by halves between
  /// the memory that there is and what that one needs, so that the best plan says how much is
  /// missing.
  void add_nearer() {
    if (request_.cluster.description().types.size() > 1) return;
    Bytes too_little{0};  // no placements were found for it
    for (int trial = 0; trial < kSearchPolicy.nearer_trials && !has_ended(); ++trial) {
      const auto nearest =
          std::ranges::find_if(result_.candidates, [&](const EvaluatedCandidate& known) {
            return obeys(known.candidate, options_.constraints);
          });
      if (nearest == result_.candidates.end()) return;
      const RankMemoryNeed need = nearest->fullest.memory;
      too_little = std::max(too_little, need.capacity);
      const Bytes middle((too_little.value() + need.all().value()) / 2);
      if (static_cast<double>(need.all().value()) <
          kSearchPolicy.close_enough * static_cast<double>(too_little.value()))
        return;
      const Cluster larger = with_memory(request_.cluster, middle);
      PlanRequest request{request_.graph, larger};
      request.prefetches = request_.prefetches;
      add(placement_searches().front().find(request, options_.constraints, {}));
      if (result_.candidates.front().fullest.memory.all() >= need.all()) too_little = middle;
    }
  }

  /// Identical devices are at most n times as fast as one of them.
  bool may_be_faster(int ranks) const {
    const EvaluatedCandidate* one = result_.find(Candidate::Source::kOneDevice);
    if (!result_.best || !one) return true;
    const bool are_identical = request_.cluster.description().types.size() == 1;
    const Seconds smallest = are_identical ? Seconds(one->step().value() / ranks)
                                           : step_floor(request_, ranks, *one).seconds();
    return smallest < best().step();
  }

  /// Of large programs fewer are compiled.
  int64_t max_presets() const {
    if (are_many()) return std::min(kSearchPolicy.presets_of_many, options_.max_presets);
    const int64_t ops = std::max<int64_t>(std::ssize(request_.graph.ops()), 1);
    return std::clamp<int64_t>(options_.max_preset_ops / ops,
                               std::min(kSearchPolicy.min_presets, options_.max_presets),
                               options_.max_presets);
  }

  void add(std::vector<Candidate> candidates) {
    const int64_t round = are_many() ? 1 : kSearchPolicy.round;
    for (int64_t first = 0; first < std::ssize(candidates); first += round) {
      const auto begin = std::make_move_iterator(candidates.begin() + first);
      add_round({begin, begin + std::min(round, std::ssize(candidates) - first)});
    }
  }

  /// Presets that zero may make as fast as the best candidate are not excluded.
  void add_round(std::vector<Candidate> candidates) {
    Seconds saved(0);
    for (const Candidate& candidate : candidates)
      saved = std::max(saved, updates_.seconds(candidate));
    if (options_.excludes && result_.best) evaluation_.limit = best().step() + saved;
    keep(evaluate(request_, std::move(candidates), evaluation_), result_, options_.constraints);
    tell_best();
  }

  /// Reports a best candidate that is faster than the last one.
  void tell_best() {
    if (!has_best() || !evaluation_.improved || (told_ && best().step() >= *told_)) return;
    told_ = best().step();
    evaluation_.improved(best());
  }

  /// Of many ranks the search for pipelines has priced all degrees that presets have: these are
  /// tried when it finds nothing.
  bool wants_presets() const {
    const auto is_pipeline_of_many = [](const auto& each) { return each.ranks() > 1; };
    return options_.tries_presets &&
           !(are_many() && std::ranges::any_of(result_.candidates, is_pipeline_of_many));
  }

  void add_preset_grid() {
    has_presets_ = true;
    PresetGrid grid = preset_grid(request_, options_.constraints, max_presets());
    result_.left_out = grid.left_out;
    std::ranges::move(grid.unusable, std::back_inserter(result_.unusable));
    add(std::move(grid.candidates));
    over_memory_ = over_memory_presets();
  }

  /// For the preset that lacks least, where no variables fit.
  bool wants_presets_without_room() const {
    return !result_.best && has_presets_ &&
           std::ranges::none_of(over_memory_, &OverMemory::has_room);
  }

  /// Those of the least bound first, which zero may make faster than the best candidate.
  std::vector<OverMemory> over_memory_presets() const {
    const auto has_room = [](const RankMemoryNeed& need) {
      return need.variables + need.others + need.reserve <= need.capacity;
    };
    std::vector<OverMemory> faster;
    for (const EvaluatedCandidate& known : result_.candidates)
      if (known.candidate.source == Candidate::Source::kPreset && !known.fits() &&
          (!result_.best || known.step() - updates_.seconds(known.candidate) < best().step()))
        faster.push_back({known.candidate, known.step(), known.fullest.memory,
                          std::ranges::all_of(known.prediction.memory, has_room)});
    std::ranges::stable_sort(faster, {}, &OverMemory::step);
    return faster;
  }

  ///   has_room  of the presets for which it is so
  void add_micro_batches(bool has_room) {
    int64_t left = max_presets();
    for (const OverMemory& over_memory : over_memory_) {
      if (over_memory.has_room != has_room || (result_.best && over_memory.step >= best().step()))
        continue;
      std::vector<Candidate> candidates =
          with_micro_batches(request_, options_.constraints, {over_memory.preset});
      if (!is_pipeline(over_memory.preset))
        std::erase_if(candidates,
                      [&](const Candidate& each) { return !may_fit(over_memory, each); });
      const int64_t tried = std::min(left, std::ssize(candidates));
      result_.left_out += std::ssize(candidates) - tried;
      left -= tried;
      candidates.resize(tried);
      if (is_pipeline(over_memory.preset))
        add(std::move(candidates));
      else
        add_while_none_fits(std::move(candidates));
    }
  }

  /// One preset on one mesh, with more and more micro-batches. More of them have more launches and
  /// exchanges, and hide no bubble, so none is tried after the first ones that fit.
  void add_while_none_fits(std::vector<Candidate> candidates) {
    for (int64_t first = 0; first < std::ssize(candidates);
         first += kSearchPolicy.micro_batches_at_once) {
      const auto begin = candidates.begin() + first;
      const auto end =
          begin + std::min(kSearchPolicy.micro_batches_at_once, std::ssize(candidates) - first);
      std::set<std::string> names;
      for (auto each = begin; each != end; ++each) names.insert(each->name);
      add_round({std::make_move_iterator(begin), std::make_move_iterator(end)});
      if (std::ranges::any_of(result_.candidates, [&](const EvaluatedCandidate& known) {
            return known.fits() && names.contains(known.candidate.name);
          }))
        return;
    }
  }

  /// The presets that do not fit, with zero and recompute, while one of them could be faster than
  /// what is known.
  void add_variants() {
    const std::vector<OverMemory> presets = over_memory_presets();
    if (presets.empty()) return;
    MemorySavingPresets saved(
        request_.graph, request_.cluster,
        {.recompute = !fixes_decision(options_.constraints, "recompute"),
         .micro_batches = !fixes_decision(options_.constraints, "micro_batches"),
         .zero = !fixes_decision(options_.constraints, kZeroKey)});
    for (const OverMemory& over_memory : presets)
      saved.add({over_memory.preset.name, over_memory.step, over_memory.need,
                 over_memory.preset.plan.micro_batches});
    for (int64_t left = max_presets(); left > 0;) {
      const auto limit = result_.best ? std::optional(best().step()) : std::nullopt;
      const std::vector<std::string> names = saved.take(std::min(left, kSearchPolicy.round), limit);
      if (names.empty()) break;
      left -= std::ssize(names);
      add_round(presets_of(names));
      for (const EvaluatedCandidate& known : result_.candidates)
        if (std::ranges::count(names, known.candidate.name) > 0)
          saved.learn(known.candidate.name, known.fullest.memory);
    }
    result_.left_out += saved.left();
  }

  std::vector<Candidate> presets_of(const std::vector<std::string>& names) {
    std::vector<Candidate> candidates;
    for (const std::string& name : names) {
      Preset preset = parse_preset(name);
      preset.decisions.marks = options_.constraints.marks;
      try {
        candidates.push_back(
            {Candidate::Source::kPreset, name, preset_plan(preset, request_.graph)});
        candidates.back().zero = preset.zero;
      } catch (const UserError& error) {
        if (error.exit_code() != ExitCode::kBadConfig) throw;
        result_.unusable.push_back({name, error.what_happened(), error.why(), error.fix()});
      }
    }
    return candidates;
  }

  /// Of a large program each trial takes seconds.
  bool tries_recompute_limits() const {
    const bool is_large = max_presets() < options_.max_presets;
    return !are_many() && (!is_large || options_.local_search_trials > 0);
  }
  void add_recompute_limits() {
    keep(with_recompute_limits(request_, options_.constraints, result_, options_.evaluation,
                               options_.excludes),
         result_, options_.constraints);
  }

  void add_offloaded() {
    for (auto& list : with_offloaded_states(request_, options_.constraints, result_))
      if (!result_.best) add(std::move(list));
  }

  /// The step that changes of keys may lead to: without a part of the time in exchanges and, but in
  /// pipelines, of the waits for other ranks.
  Seconds hoped_step(const EvaluatedCandidate& known) const {
    Seconds waiting = is_pipeline(known.candidate) ? Seconds(0) : known.parts.idle;
    for (const auto& [axes, time] : known.parts.exposed) waiting += time;
    return known.step() - Seconds(kSearchPolicy.saved_waiting * waiting.value());
  }

  /// Candidates of which no two are of one kind: the fastest one, and those that may become faster,
  /// in the order of what they may become. Where none fits those that lack least.
  std::vector<EvaluatedCandidate> key_starts() const {
    std::set<KindOfPlan> kinds;
    std::vector<EvaluatedCandidate> starts;
    for (const EvaluatedCandidate& known : result_.candidates)
      if (known.fits() == has_best() && !known.candidate.estimate && known.ranks() > 1 &&
          obeys(known.candidate, options_.constraints) &&
          (starts.empty() || !has_best() || hoped_step(known) <= best().step()) &&
          kinds.insert(kind_of(known.candidate)).second)
        starts.push_back(known);
    if (has_best())
      std::ranges::stable_sort(starts, {}, [&](const auto& each) { return hoped_step(each); });
    if (starts.size() > kSearchPolicy.key_starts) starts.resize(kSearchPolicy.key_starts);
    return starts;
  }

  void search_keys() {
    KeySearch search(request_, options_.constraints, evaluation_);
    const auto improve = [&](const EvaluatedCandidate& start, int64_t& work, KeyRange range) {
      std::optional<EvaluatedCandidate> better = search.better(start, work, range);
      if (better) keep(*std::move(better), result_);
      choose_best(result_, options_.constraints);
      tell_best();
    };
    int64_t left = kSearchPolicy.key_work;
    for (const EvaluatedCandidate& start : key_starts()) {
      int64_t share = left / 2;
      left -= share;
      improve(start, share, KeyRange::kAll);
      left += share;  // of it what is not used
    }
    // Its search may have ended with its work.
    left += kSearchPolicy.key_work / 2;
    if (has_best() && best().ranks() > 1 && !best().candidate.estimate)
      improve(EvaluatedCandidate(best()), left, KeyRange::kNearest);
    result_.local_search_trials += search.trials();
    result_.not_tried += search.not_tried();
  }

  /// The next best strategies of single classes of ops.
  void search_placements_around_best() {
    int64_t left = options_.local_search_trials;
    for (bool is_faster = true;
         is_faster && left > 0 && best().candidate.source == Candidate::Source::kSearch;) {
      const int64_t count = (left + 1) / 2;
      left -= count;
      is_faster = take_fastest(placement_neighbours(
          request_, with_ranks(options_.constraints, best().ranks()), best().candidate, count));
    }
  }

  /// Keeps the fastest of these candidates where it is faster than the best one.
  bool take_fastest(std::vector<Candidate> candidates) {
    const Seconds known = best().step();
    evaluation_.limit = known;
    Evaluations found = evaluate(request_, std::move(candidates), evaluation_);
    result_.local_search_trials += std::ssize(found.evaluated) + std::ssize(found.excluded);
    result_.not_tried += found.not_tried;
    std::erase_if(found.evaluated, [&](const EvaluatedCandidate& each) {
      return !each.fits() || !obeys(each.candidate, options_.constraints) || each.step() >= known;
    });
    if (found.evaluated.empty()) return false;
    result_.candidates.push_back(
        std::move(*std::ranges::min_element(found.evaluated, {}, &EvaluatedCandidate::step)));
    choose_best(result_, options_.constraints);
    return true;
  }

  /// The best plan has to fit with all programs of a run; where it does not the next one is best.
  void complete_best() {
    while (result_.best && !best().has_whole_memory) {
      complete_memory(request_, result_.candidates[*result_.best]);
      choose_best(result_, options_.constraints);
    }
  }

  const EvaluatedCandidate& best() const { return result_.candidates[*result_.best]; }

 private:
  void run(const SearchStage& stage);
  void run(const CandidateSource& source);
  /// Reports what `run` did.
  template <class Run>
  void report(std::string name, std::string explanation, bool is_wanted, const Run& run);

  const PlanRequest& request_;
  const PlanSearchOptions& options_;
  const UpdateSavedByZero updates_;
  EvaluationOptions evaluation_;  // with the limit of the next round
  std::optional<Seconds> told_;   // the step of the best candidate that was reported last
  bool has_presets_ = false;
  std::vector<OverMemory> over_memory_;  // presets of the grid
  PlanSearchResult result_;
};

/// A stage is run where its condition holds.
struct SearchStage {
  std::string_view name, explanation;
  bool (*when)(const PlanSearch& search);
  void (*run)(PlanSearch& search);
};

bool always(const PlanSearch&) {
  return true;
}
bool has_presets(const PlanSearch& s) {
  return s.has_presets();
}

constexpr SearchStage kBeforeSources[] = {
    {"given", "one device, and the plans that are compared", always,
     [](PlanSearch& s) { s.add_given(); }},
    {"first presets", "where the time is limited: the searches may take all of it",
     [](const PlanSearch& s) { return s.is_limited() && s.options().tries_presets; },
     [](PlanSearch& s) { s.add_first_presets(); }},
};

// Then PlanSearchOptions::sources.

constexpr SearchStage kAfterSources[] = {
    {"presets", "the grid of degrees; on more than 64 ranks where the searches found nothing",
     [](const PlanSearch& s) { return s.wants_presets(); },
     [](PlanSearch& s) { s.add_preset_grid(); }},
    {"more micro-batches", "of presets that do not fit and may be faster than the best plan",
     has_presets, [](PlanSearch& s) { s.add_micro_batches(true); }},
    {"memory-saving presets", "zero and recompute for presets that do not fit", has_presets,
     [](PlanSearch& s) { s.add_variants(); }},
    {"nearest presets", "more micro-batches where the variables of no preset fit",
     [](const PlanSearch& s) { return s.wants_presets_without_room(); },
     [](PlanSearch& s) { s.add_micro_batches(false); }},
    {"fewer ranks", "the searches on smaller numbers of ranks that may be faster",
     [](const PlanSearch& s) { return s.options().sources_of_fewer && !s.are_many(); },
     [](PlanSearch& s) { s.add_results_of_fewer(); }},
    {"recompute limits", "recompute of single ops; of large programs with --local-search alone",
     [](const PlanSearch& s) { return s.tries_recompute_limits(); },
     [](PlanSearch& s) { s.add_recompute_limits(); }},
    {"keys that save memory", "of the plans that lack least, where nothing fits",
     [](const PlanSearch& s) { return !s.has_best() && !s.are_many(); },
     [](PlanSearch& s) { s.search_keys(); }},
    {"nearest placements", "where nothing fits: placements that lack less memory",
     [](const PlanSearch& s) {
       return !s.has_best() && !s.options().sources.empty() && !s.are_many();
     },
     [](PlanSearch& s) { s.add_nearer(); }},
    {"offload", "where nothing fits, on cores: the state of the optimizer in a file",
     [](const PlanSearch& s) { return s.options().offloads && !s.has_best() && !s.are_many(); },
     [](PlanSearch& s) { s.add_offloaded(); }},
    {"keys", "of the fastest plans of several kinds, one at a time; on up to 256 ranks",
     [](const PlanSearch& s) { return s.has_best() && s.changes_keys(); },
     [](PlanSearch& s) { s.search_keys(); }},
    {"local search", "the next best placements of single classes of ops",
     [](const PlanSearch& s) { return s.has_best() && s.options().local_search_trials > 0; },
     [](PlanSearch& s) { s.search_placements_around_best(); }},
};

template <class Run>
void PlanSearch::report(std::string name, std::string explanation, bool is_wanted, const Run& run) {
  SearchStageReport stage{.name = std::move(name), .explanation = std::move(explanation)};
  const auto count = [&] { return std::ssize(result_.candidates) + std::ssize(result_.excluded); };
  const int64_t before = count();
  stage.has_run = is_wanted;
  const Stopwatch watch;
  if (is_wanted) run();
  complete_best();
  tell_best();
  stage.time = watch.elapsed();
  stage.evaluated = count() - before;
  if (result_.best) stage.best = best().step();
  result_.stages.push_back(std::move(stage));
}

void PlanSearch::run(const SearchStage& stage) {
  report(std::string(stage.name), std::string(stage.explanation), stage.when(*this),
         [&] { stage.run(*this); });
}

void PlanSearch::run(const CandidateSource& source) {
  const bool is_late = has_ended();
  if (is_late) ++result_.not_tried;
  report(source.name, source.explanation, !is_late,
         [&] { add(source.find(request_, options_.constraints, std::as_const(result_))); });
}

PlanSearchResult PlanSearch::result() {
  for (const SearchStage& stage : kBeforeSources) run(stage);
  for (const CandidateSource& source : options_.sources) run(source);
  for (const SearchStage& stage : kAfterSources) run(stage);
  std::ranges::stable_sort(result_.excluded, {}, &ExcludedCandidate::bound);
  return std::move(result_);
}

}  // namespace

PlanSearchResult find_plan(const PlanRequest& request, const PlanSearchOptions& options) {
  return PlanSearch(request, options).result();
}

}  // namespace tessera
