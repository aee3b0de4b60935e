// Presets that do not fit, with what saves memory: the order in which they are tried.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "compiler/plan/preset.h"
#include "compiler/rewrite/recompute.h"
#include "ir/graph/graph.h"
#include "planner/search/internal/candidates/candidate.h"

namespace tessera {

/// What recompute does to a step of a graph, as shares that no placement is needed for.
struct RecomputeShares {
  double kept = 1;   // of the bytes of results that the backward reads when none is computed again
  double added = 0;  // to the time of the kernels
};
/// By Recompute::Kind: none, selective, full.
///   device  the speed of the kernels
///   time    O(ops) and one minimum cut
std::array<RecomputeShares, 3> recompute_shares(const Graph& graph, const DeviceCost& device);

/// What zero takes off the steps of presets: the ranks of dp divide the update of the optimizer,
/// which each of them computes whole without it. On devices with little bandwidth it is a part of
/// the step that counts.
class UpdateSavedByZero {
 public:
  UpdateSavedByZero() = default;  // there are none
  ///   graph   of a training step
  ///   device  the speed of its kernels
  UpdateSavedByZero(const Graph& graph, const DeviceCost& device);
  /// An estimate of what zero saves at the most; 0 for a preset that has it, or no dp.
  Seconds seconds(const Preset& preset) const;
  /// The same; 0 for what is no preset.
  Seconds seconds(const Candidate& candidate) const;

 private:
  Seconds whole_{0};  // the update of all variables on one device
};

/// The order of presets with levels of zero, recompute and, on one mesh, more micro-batches. It
/// begins with presets that were compiled and do not fit. It leaves out what cannot be faster, by
/// the bound of the preset, the kernels that recompute adds and what zero saves of the update, and
/// what cannot fit: what a level
/// of zero saves follows from the variables, k micro-batches keep at least a k-th of the arena, and
/// what recompute saves is at most the share of the results that it computes again, or the part of
/// an arena that it saved in a preset of the same degrees with fewer micro-batches.
///
/// First are those that are expected to fit, of these the fastest as estimated: the exchanges that
/// zero adds are those of a rank's parameters over the links of its mesh, and hidden by nothing.
/// Once a plan fits, those that are expected to lack a quarter of the memory are left out.
///
/// Of presets of the same degrees, those that save less than one that does not fit are left out,
/// and those that save more than one that fits, since it is faster.
class MemorySavingPresets {
 public:
  /// A preset that does not fit.
  struct OverMemory {
    std::string name;     // "dp=2,tp=2,micro_batches=4"
    Seconds step{0};      // a bound
    RankMemoryNeed need;  // of the fullest rank
    int64_t micro_batches = 1;
  };
  /// What may be chosen.
  struct Choices {
    bool recompute = true, micro_batches = true, zero = true;
  };

  ///   graph  of a training step
  MemorySavingPresets(const Graph& graph, const Cluster& cluster, const Choices& choices);

  /// Adds a preset without zero and recompute.
  void add(const OverMemory& over_memory);

  /// The names of at most `count` presets, "dp=2,micro_batches=4,zero=1,recompute=full", and takes
  /// them out. All of them have a bound below `limit`.
  std::vector<std::string> take(int64_t count, const std::optional<Seconds>& limit);

  /// What a preset that was taken needs on its fullest rank.
  void learn(const std::string& name, const RankMemoryNeed& need);

  int64_t left() const { return std::ssize(open_); }

 private:
  struct Saved {
    std::string name, degrees;
    int64_t data = 1, micro_batches = 1;
    int zero = 0;
    size_t recompute = 0;        // index in shares_
    Seconds step{0};             // a bound
    RankMemoryNeed over_memory;  // of the preset without memory-saving decisions
    int64_t split = 1;           // its arena is that of n times fewer micro-batches
    double bytes = 0;            // an estimate of what it needs
    Seconds expected{0};         // an estimate of the step
  };

  void add_variants(const OverMemory& over_memory, int64_t split);
  void estimate(Saved& saved, const Preset& preset) const;
  /// On devices of `memory` times their memory.
  bool is_expected_to_fit(const Saved& saved, double memory = 1) const;
  void sort();
  static bool saves_at_least(const Saved& more, const Saved& less);
  double bytes_without_recompute(const Saved& saved) const;
  double largest_saved_part(const Saved& saved) const;
  bool may_fit(const Saved& saved) const;

  const Cluster& cluster_;
  const Choices choices_;
  const UpdateSavedByZero updates_;
  int64_t rows_;                           // of the batch
  double trained_share_ = 0;               // of the bytes of variables
  std::array<RecomputeShares, 3> shares_;  // none, selective, full
  std::vector<Saved> open_;                // in their order
  std::set<std::pair<std::string, int64_t>>
      compiled_;  // degrees and micro-batches of presets that do not fit
  std::map<std::string, Saved> taken_;
  /// By zero and recompute: what was needed, as a multiple of its estimate; at least 1.
  std::map<std::pair<int, size_t>, double> too_low_;
  /// By degrees, recompute and micro-batches: the part of the arena that it saved. The more
  /// micro-batches, the smaller it is, since sums of gradients do not become less.
  std::map<std::tuple<std::string, size_t, int64_t>, double> saved_part_;
};

}  // namespace tessera
