// Proofs by branching: the strategies of one node are divided in two, both halves are reduced and
// bounded, and halves that cannot contain anything better are closed.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/solver/internal/dual.h"

namespace tessera::solver {

/// A copy of the live nodes, with new numbers and without records. `original[i]` is the former
/// number of node i.
Network compacted(const Network& network, std::vector<int32_t>& original);

/// A search through the rest of a network, in pieces of work. Lanes take open parts in turn and
/// share nothing while they run, so the result depends on the rounds, not on the number of threads.
class Prover {
 public:
  Prover(const Network& network, PricesOverTime prices);

  /// Runs one round.
  ///   best  the search looks only for assignments that cost less; kNever: for anything feasible
  void round(int64_t work_of_lane, double best, int threads, const std::function<bool()>& stop);

  /// Is nothing open? Then the assignment found, or else the best one known before, has the least
  /// cost.
  bool is_done() const { return open_.empty(); }
  /// A lower bound of all assignments that are still possible and better than the best known one.
  double bound() const;
  /// The cheapest one found so far, as tags of the initial network.
  const std::optional<Assignment>& found() const { return found_; }
  double found_cost() const { return found_cost_; }
  int64_t work() const { return work_; }
  int64_t parts() const { return parts_; }

 private:
  struct Part {
    Network network;
    double bound = -kNever;
    PricesOverTime prices;
  };
  struct Lane {
    std::vector<Part> open;  // the last part is the next
    std::optional<Assignment> found;
    double found_cost = kNever;
    int64_t work = 0;
    int64_t parts = 0;
  };

  void run_lane(Lane& lane, int64_t work, double best, const std::function<bool()>& stop) const;
  void look_at(Lane& lane, Part part, double best, const std::function<bool()>& stop) const;
  bool is_closed_by_sweeps(Lane& lane, const Part& part, const Core& core, Dual& dual, double best,
                           const std::function<bool()>& stop) const;
  void keep(Lane& lane, const Part& part, const Assignment& tags, double cost) const;

  std::vector<int32_t> original_;
  size_t network_nodes_ = 0;
  std::vector<Part> open_;
  std::optional<Assignment> found_;
  double found_cost_ = kNever;
  int64_t work_ = 0;
  int64_t parts_ = 0;
};

}  // namespace tessera::solver
