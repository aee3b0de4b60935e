// The rounds of a search on one core: lanes of work run in parallel and are combined at the end of
// each round.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/solver/internal/dual.h"
#include "base/solver/internal/improve.h"

namespace tessera::solver {

/// The bounds and assignments of one core, improved round by round.
///
/// A round gives each lane the same amount of work. Lanes share nothing while they run, and their
/// results are combined in order: the result depends on the seed and the rounds, not on the number
/// of threads.
class Search {
 public:
  ///   start   an assignment of the core, kNoStrategy where a node has none; empty: there is none
  ///   prices  of memory, by moment: the start of the dual
  ///   target  the least cost known; kNever: none is known
  Search(const Core& core, const Assignment& start, const std::vector<double>& prices,
         double target, uint64_t seed, const std::function<bool()>& stop);

  /// Runs one round. `stop` is called often, from all threads; lanes end early when it returns
  /// true.
  ///   target  as above
  void round(int64_t work_of_lane, double target, int threads, const std::function<bool()>& stop);

  /// The best position so far: feasible, or the nearest to feasibility.
  const Assignment& best() const { return best_; }
  const Worth& worth() const { return worth_; }
  /// The best position of each lane.
  std::vector<Assignment> bests() const;
  /// Takes an assignment that was found elsewhere if it is better than all.
  void adopt(const Assignment& assignment);
  const Dual& dual() const { return dual_; }
  /// Has the bound stopped growing?
  bool is_dual_settled() const { return settled_rounds_ >= 4; }
  /// The number of entries of tables, over all lanes.
  int64_t work() const { return work_; }

 private:
  struct Lane {
    Improver improver;
    Dice dice;
    Assignment best;
    Worth worth;
    int64_t quiet_steps = 0;  // since its own best position
    int pushes = 0;           // since its own best position
  };

  void improve_dual(int64_t work, double target, const std::function<bool()>& stop);
  void look_for_feasible(const std::function<bool()>& stop);
  void improve_lane(Lane& lane, int64_t work, const std::function<bool()>& stop);
  int64_t work_of_lanes() const;
  void combine_lanes();

  const Core& core_;
  Dual dual_;
  std::vector<Lane> lanes_;
  Assignment rounded_;
  Worth rounded_worth_;
  bool has_rounded_ = false;
  Assignment best_;
  Worth worth_;
  std::vector<double> dual_prices_;  // at the last combination
  int settled_rounds_ = 0;
  int rounds_ = 0;
  int64_t work_ = 0;
};

}  // namespace tessera::solver
