// Proofs by branching: the strategies of one node are divided in two, both halves are reduced and
// bounded, and what cannot hold anything better is closed.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "solver/dual.h"

namespace tessera::solver {

/// A copy of what is alive, numbered anew and without records. `original[i]` is the number that
/// node i had.
Network compacted(const Network& network, std::vector<int32_t>& original);

/// A search through all that is left of a network, in pieces of work. Lanes take open parts in turn
/// and share nothing while they run: the result depends on the rounds, not on the number of
/// threads.
class Prover {
 public:
  Prover(const Network& network, PricesOverTime prices);

  /// One round.
  ///   best   nothing that costs as much is looked for; kNever: anything feasible is
  void round(int64_t work_of_lane, double best, int threads, const std::function<bool()>& stop);

  /// Nothing is open: what was found, or else the best known before, is the least.
  bool is_done() const { return open_.empty(); }
  /// No assignment that is still possible, and better than the best known, costs less.
  double bound() const;
  /// The cheapest found so far, as tags of the network that it began with.
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
    std::vector<Part> open;  // the last is next
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
