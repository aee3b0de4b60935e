// Plans to begin with, which anyone would try by hand: one device, and all divisions of a number of
// ranks into degrees of parallelism.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/preset.h"
#include "planner/placement/search_policy.h"
#include "planner/search/internal/candidates/candidate.h"

namespace tessera {

/// What a plan has to obey.
struct PlanConstraints {
  int ranks = 1;  // exactly, or at most when it may use fewer
  bool may_use_fewer = false;
  std::map<std::string, int64_t, std::less<>> degrees = {};  // fixed: {"tp", 2}
  /// Names after which the stages end, all but the last one; in `decisions`, too.
  std::vector<std::string> boundaries = {};
  /// The devices of the stages that have certain ops; in `decisions`, too.
  std::vector<StageHardware> hardware = {};
  std::string decisions = {};  // other keys of a preset, fixed for all: "micro_batches=4"
  /// Are keys fixed that only presets have, such as zero? Then no placements and no stages are
  /// searched.
  bool has_presets_alone = false;
  /// Marks that every plan has; their axes are those of `mesh`, and a plan has no others.
  std::vector<Mark> marks = {};
  MeshPtr mesh = nullptr;

  bool allows(int count) const { return may_use_fewer ? count <= ranks : count == ranks; }
};

/// Reads "tp=2,micro_batches=4": degrees that the plan must have, and other decisions.
///   fixed   "" fixes nothing; a degree "rest" is not fixed
///   origin  of `fixed`, for messages
///   ensures with chunks the schedule is interleaved, unless it is fixed;
///           with boundaries the stages are one more, unless the degree pp is given, which half of
///           the stages may be
///   throws  as parse_preset; UserError (78) when no number of ranks that is allowed is a multiple
///           of the degrees, and for boundaries that are not as many as the stages want
PlanConstraints constraints_of(int ranks, bool may_use_fewer, const std::string& fixed = "",
                               const std::string& origin = "--fix");

/// The same with the marks of a plan on its mesh: `--fix plan.json`, or [parallel].
///   throws  UserError (78) for a plan without marks, with several meshes, with another number of
///           ranks, or whose mesh does not have the fixed degrees
PlanConstraints with_marks_of(const Plan& plan, PlanConstraints constraints);

/// Is the decision `key` of plans, such as "micro_batches", fixed for all?
bool fixes_decision(const PlanConstraints& constraints, std::string_view key);
/// The decisions that are fixed for all plans, as a plan; of one micro-batch when their number is
/// not fixed, whatever the schedule.
Plan decisions_of(const PlanConstraints& constraints);

/// The largest number of micro-batches that is tried.
inline constexpr int64_t kMaxMicroBatches = kSearchPolicy.whole_micro_batches;

struct PresetGrid {
  std::vector<Candidate> candidates;
  std::vector<UnusableCandidate> unusable;  // the graph has nothing that an axis would divide
  int64_t left_out = 0;
};

/// The numbers of ranks above one that are tried, the largest first: the fixed one; when fewer are
/// allowed all of them up to 8, above that the divisors of the largest.
std::vector<int> rank_counts(const PlanConstraints& constraints);

/// The plan of one rank. It has the micro-batches that the constraints fix.
Candidate one_device(const PlanConstraints& constraints);

/// The presets dp x sp x tp x pp whose degrees multiply to one of rank_counts().
///
///   max_presets  of the grid, those of the least estimated time; data parallelism alone and tensor
///            parallelism alone on all ranks are always among them
///   ensures  the presets are in the order of their estimates
PresetGrid preset_grid(const PlanRequest& request, const PlanConstraints& constraints,
                       int64_t max_presets);

/// The same presets with micro-batches, which need less memory: for each count of 2, 4, 8, ... that
/// divides the batch. None when the constraints fix the micro-batches.
std::vector<Candidate> with_micro_batches(const PlanRequest& request,
                                          const PlanConstraints& constraints,
                                          const std::vector<Candidate>& presets);

}  // namespace tessera
