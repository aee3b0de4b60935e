// Every number that a plan search chooses by, with its unit. They decide how long a search takes
// and what it may miss, never whether an answer is right. Where a figure is told, it was measured;
// the others are choices that no other value was measured against. To try one:
// bench/planner_cases.py, bench/stage_cases.py and bench/planning_time.py before and after.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

struct SearchPolicy {
  // ---- Placements of one mesh ----

  /// Placements of a value: with more, its readers find it in one of them only, not in two
  size_t paired_placements = 9;
  /// Solutions of a problem, each with less memory, when readers take more than the limit
  /// leaves
  int rounds_within_memory = 4;
  /// Ops that one fused kernel computes at most
  size_t ops_of_a_kernel = 128;
  /// Share of a hidden exchange that counts all the same: of two choices that hide all, the
  /// one that sends less is better
  double exposed_of_hidden = 0.05;
  /// Choices of the ops so far, as a multiple of those that are kept of the whole op cluster
  int open_choices = 4;
  /// Millions of entries of tables that the solver looks at. With ten times as many answers
  /// get better by less than what the prices miss, and four layers take half a minute.
  int64_t work = 40;
  /// Share of what the backward reads that passes before the search may leave
  double kept_share = 0.5;
  /// Calls of the placement search, each with less memory than the one before
  int rounds_of_placements = 4;
  /// The same as `work`, for each strategy of --explain
  int64_t work_of_choice = 40;
  /// Strategies of --explain
  int64_t priced_choices = 24;

  // ---- Presets ----

  /// Operations for each element that is exchanged, at least, of a matmul that tensor
  /// parallelism divides. A projection to ten classes has 20: dividing it costs more than it
  /// saves.
  double flops_per_element = 32;
  /// Share of the products that the axis of space divides, at least
  double share_of_space = 0.5;
  /// Time of the busiest stage, as a multiple, that a cut with fewer bytes may cost
  double cut_slack = 1.05;
  /// Share of an even part of the work that every stage has, at least
  double stage_work = 0.01;
  /// Time of the busiest stage, as a multiple, that keeping to the boundaries of layers may
  /// cost
  double cut_unevenness = 1.5;
  /// Parts of the work of a stage within which a cut is nearby
  int cut_parts = 3;
  /// Values of which all subsets are tried
  size_t cut_subsets = 10;

  // ---- Pipelines ----

  /// Ranks: of more a stage begins at a multiple of its size, at most as many lie side by
  /// side, and each candidate takes seconds
  int many_ranks = 64;
  /// Ranks of which all runs are tried
  int few_ranks = 8;
  /// Answers of one micro-batch beside the others: the clock does not know how well weight
  /// gradients overlap there
  size_t of_one_micro_batch = 2;
  /// Stages of which two cuts are moved in all combinations
  size_t few_stages = 4;
  /// Micro-batches in flight, at most, for each stage after that of the device (zb-h2)
  int in_flight_of_a_stage = 2;
  /// Halvings of the time of the busiest stage
  int bisections = 24;
  /// Cuts of one pipeline that are put on the clock under a schedule
  int simulated_cuts = 4000;
  /// Cuts that one random kick moves
  int shifts_of_kick = 3;
  /// Units of the model by which it moves each
  int units_of_shift = 3;
  /// Pipelines of which the fastest cuts are searched
  size_t descents = 6;
  /// Pipelines of which a few cuts are tried before
  size_t short_descents = 48;
  /// Those cuts
  int few_cuts = 200;
  /// Time with the first cuts, as a multiple of the best, of pipelines that are searched
  double rough_margin = 1.1;
  /// Neighbours of the best pipeline that are compiled at a time
  size_t neighbour_trials = 3;
  /// The same where candidates take long
  size_t few_neighbour_trials = 2;
  /// Searches with less memory
  int searches_again = 3;
  /// Times that neighbours are made
  int neighbour_rounds = 2;
  /// Times that pipelines with two stages on each device are made
  int split_rounds = 2;
  /// Of these, how many are compiled
  size_t split_trials = 3;
  /// Types of devices of which every order is tried
  size_t ordered_types = 4;
  /// Of many ranks: tp, as a multiple of the devices of a machine
  int64_t operator_machines = 4;
  /// Of many ranks: rows of a batch up to which every divisor is a number of micro-batches
  int64_t all_divisors_rows = 64;
  /// Of many ranks: the least number of micro-batches of larger batches
  int64_t micro_batches_of_many = 16;
  /// Of many ranks: pipelines that are compiled until one fits
  size_t pipelines_of_many = 4;
  /// Parts of a name: of a long list the first two and the last one
  size_t named_parts = 5;
  /// Estimate of a pipeline that is compiled, as a multiple of the best step
  double estimate_margin = 1.04;
  /// The same of those that compute results again: a limit of what is kept makes them faster
  double recompute_margin = 1.1;
  /// Share by which estimates of memory are too high at most
  double memory_margin = 0.08;
  /// The weight of the slowest device, at most
  int least_weight = 16;
  /// Error of the speeds that weights stand for
  double weight_tolerance = 0.05;

  // ---- Candidates: what is compiled and simulated ----

  /// Presets that come before the searches of a limited time: data and tensor parallelism
  /// alone, and the others of the least estimates
  int64_t first_presets = 6;
  /// Placements that are searched where nothing fits
  int nearer_trials = 3;
  /// Memory that a plan needs, as a multiple of what there is, from which on none nearer is
  /// wanted
  double close_enough = 1.02;
  /// Numbers of micro-batches that are compiled at once
  int64_t micro_batches_at_once = 2;
  /// Presets of large programs
  int64_t min_presets = 8;
  /// Presets of more than many_ranks
  int64_t presets_of_many = 2;
  /// Candidates that are evaluated at once
  int64_t round = 4;
  /// Divisors of a fixed number of ranks that are compared
  int fewer_divisors = 2;
  /// Ranks up to which a plan may have each smaller number
  int all_counts_ranks = 8;
  /// Memory with which a preset is expected to fit, as a multiple, or else it is not worth a
  /// trial
  double memory_doubt = 1.25;
  /// Micro-batches of a step that is simulated whole; of more the time is extrapolated
  int64_t whole_micro_batches = 64;
  /// Ops of such a step, once for each micro-batch: larger ones take gigabytes
  int64_t whole_ops = 300'000;
  /// Share of the step in which ranks wait for others, from which on changes of the keys of
  /// exchanges are worth a trial
  double exchanges_worth = 0.003;
  /// Share of the step by which a change of a key is faster
  double faster_by = 0.0005;
  /// Candidates from which keys are changed
  size_t key_starts = 3;
  /// Share of the time in which ranks of a candidate wait that changes of keys may save
  double saved_waiting = 0.6;
  /// Kernels and exchanges that are simulated for changes of keys: a start has half of what those
  /// before it leave
  int64_t key_work = 600'000;
  /// Ranks up to which every division in two factors is searched
  int free_rest = 8;
  /// Plans with a limit of what they keep that are tried at once
  size_t limited_plans = 6;
  /// Plans that are asked what they keep
  size_t examined_plans = 12;
  /// Times that a limit is lowered
  int limit_shrinks = 3;
  /// Share of a limit: less memory is not worth a trial with more
  double limit_worth = 0.01;
  /// Plans that are tried with the state of the optimizer in a file
  size_t offloaded_plans = 4;
  /// Variables in a window: one is read, one updated and one written at the same time
  int64_t window_variables = 3;
};

inline constexpr SearchPolicy kSearchPolicy;

}  // namespace tessera
