#include "planner/search/internal/savings/recompute_limits.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/plan/preset.h"
#include "planner/placement/search_policy.h"
#include "planner/presets/presets.h"
#include "planner/search/internal/savings/saved_candidate.h"
#include "planner/search/internal/sources/stage_plans.h"

namespace tessera {
namespace {

Recompute recompute_of(const std::string& decisions) {
  return parse_preset("dp=1," + decisions).decisions.recompute;
}

/// The plan with its marks; nullptr where it has none of what the search decided.
const Plan* marked(const Candidate& candidate) {
  if (candidate.marked) return candidate.marked.get();
  return candidate.plan.shardings ? nullptr : &candidate.plan;
}

bool may_be_limited(const Candidate& candidate) {
  return candidate.shorter.empty() && marked(candidate);
}

/// The candidate with another recompute.
///   decisions  that say it in its name
Candidate with_recompute(const PlanRequest& request, const Candidate& base, const Recompute& chosen,
                         const std::string& decisions) {
  Candidate made = with_name_of(base, decisions);
  made.plan = *marked(base);
  made.plan.name = made.name;
  made.plan.recompute = chosen;
  if (base.source == Candidate::Source::kPipeline) {
    made.marked = std::make_shared<const Plan>(made.plan);
    made.plan = explicit_plan(request, made.plan);
  }
  return made;
}

/// For each rank that lacks memory what its stage keeps less what it lacks; the least of these.
std::optional<Bytes> limit_of(const Plan& plan, const std::vector<RankMemoryNeed>& needs,
                              const std::vector<Bytes>& kept) {
  std::optional<Bytes> limit;
  const Meshes meshes = plan.placed();
  for (size_t stage = 0; stage < meshes.size(); ++stage)
    for (const Rank rank : meshes[stage].mesh->ranks()) {
      const RankMemoryNeed& need = needs.at(rank);
      const Bytes left = kept.at(stage) - (need.all() - need.capacity);
      if (!need.fits() && (!limit || left < *limit)) limit = left;
    }
  return limit;
}

/// Of the stages that compute something again what they keep and have left; the least of these.
///   all  what they would keep at most
std::optional<Bytes> larger_limit(const Plan& plan, const std::vector<RankMemoryNeed>& needs,
                                  const std::vector<Bytes>& kept, const std::vector<Bytes>& all) {
  std::optional<Bytes> limit;
  const Meshes meshes = plan.placed();
  for (size_t stage = 0; stage < meshes.size(); ++stage)
    for (const Rank rank : meshes[stage].mesh->ranks()) {
      const Bytes largest = kept.at(stage) + (needs.at(rank).capacity - needs.at(rank).all());
      if (kept.at(stage) < all.at(stage) && (!limit || largest < *limit)) limit = largest;
    }
  return limit;
}

/// A plan under one limit after another.
class LimitedPlan {
 public:
  /// base  keeps everything; nothing is known of its memory
  LimitedPlan(const PlanRequest& request, Candidate base)
      : request_(&request), base_(std::move(base)) {}

  const std::string& name() const { return base_.name; }
  /// What is tried next; nullopt when there is nothing.
  const std::optional<Candidate>& next() const { return next_; }
  void try_base() { next_ = base_; }
  void stop() { next_.reset(); }
  /// Does its decision take seconds? Then nothing is tried.
  bool is_slow() const { return is_slow_; }

  /// `found` is the base, or what was tried, and does not fit.
  void shrink(const EvaluatedCandidate& found) {
    next_.reset();
    if (kept_.empty()) {
      if (!decide(Bytes(kEverything))) return;
      all_ = kept_;
    }
    const std::optional<Bytes> limit =
        limit_of(found.candidate.plan, found.prediction.memory, kept_);
    if (limit && !is_grown_ && shrunk_++ <= kSearchPolicy.limit_shrinks) try_limit(*limit);
  }

  /// What was tried fits, and is the best plan.
  void grow(const EvaluatedCandidate& found) {
    next_.reset();
    if (kept_.empty() || std::exchange(is_grown_, true)) return;
    const std::optional<Bytes> limit =
        larger_limit(found.candidate.plan, found.prediction.memory, kept_, all_);
    const auto known = static_cast<double>(std::ranges::max(kept_).value());
    if (limit && static_cast<double>(limit->value()) > (1 + kSearchPolicy.limit_worth) * known)
      try_limit(*limit);
  }

 private:
  static constexpr int64_t kEverything = int64_t{1} << 60;

  /// Sets what is kept under a limit, and what is computed again.
  bool decide(Bytes limit) {
    Plan plan = *marked(base_);
    plan.recompute = {Recompute::Kind::kAuto, {}, limit};
    CompileOptions options;
    options.rewrites = request_->rewrites;
    try {
      RecomputeDecision decision = recompute_decision(request_->graph, plan, options);
      is_slow_ = !decision.is_made;
      if (is_slow_) return false;
      kept_ = std::move(decision.kept);
      chosen_ = std::move(decision.recompute);
      return true;
    } catch (const UserError& error) {
      if (error.exit_code() != ExitCode::kNoPlan) throw;
      return false;  // less than can be kept
    }
  }

  void try_limit(Bytes limit) {
    const std::string text = mib_text(std::max(limit, Bytes(0)));
    const std::string decisions = "recompute=auto,activation_mib=" + text;
    if (text == "0" || !tried_.insert(decisions).second) return;
    const Recompute recompute = recompute_of(decisions);
    if (!decide(recompute.limit)) return;
    const bool is_resolved = base_.source == Candidate::Source::kPipeline;
    next_ = with_recompute(*request_, base_, is_resolved ? chosen_ : recompute, decisions);
  }

  const PlanRequest* request_;
  Candidate base_;
  std::vector<Bytes> all_;   // by stage, where nothing is computed again
  std::vector<Bytes> kept_;  // the same of the last decision; empty: none was made
  Recompute chosen_;         // patterns
  std::optional<Candidate> next_;
  std::set<std::string> tried_;
  int shrunk_ = 0;
  bool is_grown_ = false, is_slow_ = false;
};

class LimitSearch {
 public:
  LimitSearch(const PlanRequest& request, const PlanConstraints& constraints,
              const PlanSearchResult& known, const EvaluationOptions& evaluation, bool excludes)
      : request_(request),
        constraints_(constraints),
        known_(known),
        evaluation_(evaluation),
        excludes_(excludes) {
    if (known.best) best_ = known.candidates[*known.best].step();
    for (const Recompute::Kind kind : {Recompute::Kind::kSelective, Recompute::Kind::kFull})
      add_recomputing(kind);
    add_over_memory();
  }

  Evaluations evaluations() {
    while (evaluate_next()) {
    }
    return std::move(found_);
  }

 private:
  /// The fastest plan that computes something again in this way, as it would be if it kept
  /// everything.
  void add_recomputing(Recompute::Kind kind) {
    const EvaluatedCandidate* fastest = nullptr;
    for (const EvaluatedCandidate& each : known_.candidates)
      if (each.candidate.plan.recompute.kind == kind && each.fits() &&
          may_be_limited(each.candidate) && obeys(each.candidate, constraints_) &&
          (!fastest || each.step() < fastest->step()))
        fastest = &each;
    if (!fastest) return;
    Candidate whole = with_recompute(request_, fastest->candidate, {}, "recompute,activation_mib");
    const auto is_known = [&](const std::string& name) {
      return std::ranges::count(known_.candidates, name, name_of) > 0 ||
             std::ranges::count(plans_, name, &LimitedPlan::name) > 0;
    };
    // A pipeline of this name may have other cuts; another plan is a preset that does not fit.
    const bool may_differ = whole.source == Candidate::Source::kPipeline;
    const std::string name = whole.name;
    for (int copy = 2; is_known(whole.name); ++copy) {
      if (!may_differ) return;
      whole.plan.name = whole.name = name + " (" + std::to_string(copy) + ")";
    }
    plans_.emplace_back(request_, std::move(whole));
    plans_.back().try_base();
  }

  static const std::string& name_of(const EvaluatedCandidate& each) { return each.candidate.name; }

  void add_over_memory() {
    std::vector<const EvaluatedCandidate*> over_memory_presets;
    std::set<std::pair<uint64_t, int>> programs;
    for (const EvaluatedCandidate& each : known_.candidates)
      if (!each.fits() && (!best_ || each.step() < *best_) &&
          each.candidate.plan.recompute == Recompute() && may_be_limited(each.candidate) &&
          obeys(each.candidate, constraints_) &&
          programs.emplace(each.program, each.ranks()).second)
        over_memory_presets.push_back(&each);
    std::ranges::stable_sort(over_memory_presets, {},
                             [](const auto* each) { return each->step(); });
    for (size_t i = 0; i < std::min(kSearchPolicy.examined_plans, over_memory_presets.size());
         ++i) {
      if (plans_.size() == kSearchPolicy.limited_plans) return;
      LimitedPlan plan(request_, over_memory_presets[i]->candidate);
      plan.shrink(*over_memory_presets[i]);
      if (plan.is_slow()) return;  // those of the others are, too
      if (!plan.next()) continue;
      if (std::optional<Candidate> divided =
              with_divided_states(over_memory_presets[i]->candidate)) {
        plan = LimitedPlan(request_, *std::move(divided));
        plan.try_base();
      }
      plans_.push_back(std::move(plan));
    }
  }

  /// A preset whose states dp divides, too, which takes hardly any time; nullopt where dp has one
  /// part, or that was tried.
  std::optional<Candidate> with_divided_states(const Candidate& preset) const {
    if (preset.source != Candidate::Source::kPreset || preset.zero.value_or(1) > 0) return {};
    Candidate divided = with_name_of(preset, std::string(kZeroKey) + "=1");
    const auto has_name = [&](const auto& list, const auto& name) {
      return std::ranges::count(list, divided.name, name) > 0;
    };
    if (has_name(known_.candidates, name_of) || has_name(known_.excluded, &ExcludedCandidate::name))
      return {};
    try {
      Preset wanted = parse_preset(divided.name);
      wanted.decisions.marks = constraints_.marks;
      divided.plan = preset_plan(wanted, request_.graph);
    } catch (const UserError& error) {
      if (error.exit_code() != ExitCode::kBadConfig) throw;
      return {};
    }
    divided.plan.cost = preset.plan.cost;
    divided.zero = 1;
    return divided;
  }

  /// Returns whether anything was evaluated.
  bool evaluate_next() {
    std::vector<Candidate> candidates;
    for (const LimitedPlan& plan : plans_)
      if (plan.next()) candidates.push_back(*plan.next());
    if (candidates.empty()) return false;
    if (excludes_) evaluation_.limit = best_;
    Evaluations round = evaluate(request_, std::move(candidates), evaluation_);
    for (const EvaluatedCandidate& each : round.evaluated)
      if (each.fits() && (!best_ || each.step() < *best_)) best_ = each.step();
    for (LimitedPlan& plan : plans_)
      if (plan.next()) learn(plan, round.evaluated);
    for (EvaluatedCandidate& each : round.evaluated)
      if (each.fits()) found_.evaluated.push_back(std::move(each));
    std::ranges::move(round.excluded, std::back_inserter(found_.excluded));
    std::ranges::move(round.unusable, std::back_inserter(found_.unusable));
    found_.not_tried += round.not_tried;
    return true;
  }

  /// Goes on with plans that may be the best. Those that a bound excludes may not.
  void learn(LimitedPlan& plan, const std::vector<EvaluatedCandidate>& evaluated) const {
    const auto found = std::ranges::find(evaluated, plan.next()->name, name_of);
    if (found == evaluated.end() || (best_ && found->step() > *best_))
      plan.stop();
    else if (found->fits())
      plan.grow(*found);
    else
      plan.shrink(*found);
  }

  const PlanRequest& request_;
  const PlanConstraints& constraints_;
  const PlanSearchResult& known_;
  EvaluationOptions evaluation_;
  const bool excludes_;
  std::optional<Seconds> best_;  // the step of the best plan
  std::vector<LimitedPlan> plans_;
  Evaluations found_;
};

}  // namespace

Evaluations with_recompute_limits(const PlanRequest& request, const PlanConstraints& constraints,
                                  const PlanSearchResult& known,
                                  const EvaluationOptions& evaluation, bool excludes) {
  if (fixes_decision(constraints, "recompute")) return {};
  return LimitSearch(request, constraints, known, evaluation, excludes).evaluations();
}

}  // namespace tessera
