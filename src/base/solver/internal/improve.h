// Improves known assignments: some nodes are solved again, exactly, with all others fixed and
// memory priced.
#pragma once

#include <functional>
#include <random>
#include <vector>

#include "base/solver/internal/elimination.h"
#include "base/solver/internal/position.h"

namespace tessera::solver {

/// Random numbers that are the same on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  /// 0, ..., count - 1
  int32_t below(int32_t count) {
    return static_cast<int32_t>(engine_() % static_cast<uint64_t>(count));
  }
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

 private:
  std::mt19937_64 engine_;
};

/// Selects the nodes that are solved again at a time, and limits the work.
struct Neighbourhood {
  int32_t nodes = 60;
  int32_t seeds = 1;  // number of nodes from which the neighbourhood grows
  int64_t largest_table = 20'000;
};

/// One walk from assignment to assignment. Its result depends only on the core, the start, the
/// prices, the seed and the number of steps.
class Improver {
 public:
  Improver(const Core& core, Assignment start, uint64_t seed);

  /// Sets the prices of memory by moment, as a dual computes them. A neighbourhood starts from
  /// them.
  void set_prices(const std::vector<double>& prices);
  /// Solves one neighbourhood. A feasible position stays feasible, and its cost never grows. In an
  /// infeasible one, the missing memory never grows.
  ///   returns  whether the cost or the missing memory became less
  bool step(const Neighbourhood& neighbourhood);
  /// Solves the given nodes again, as `step` does.
  bool step_on(std::vector<int32_t> nodes, int64_t largest_table);
  /// Moves some nodes to the strategies that would be cheapest if costs were a little different,
  /// whatever the result.
  ///   noise  the largest amount that is added to the cost of a strategy, in mean costs of a node
  void push(const Neighbourhood& neighbourhood, double noise = 1);
  const Position& position() const { return position_; }
  void restart(Assignment assignment);
  /// The number of entries of tables computed so far.
  int64_t work() const { return work_; }

 private:
  std::vector<int32_t> gather(const Neighbourhood& neighbourhood);
  int32_t seed_node();
  void list_by_moment();
  struct Trial;
  Trial trial_of(const std::vector<int32_t>& nodes);
  void price(Trial& trial, double factor) const;
  void raise_price(Trial& trial, int32_t moment) const;

  const Core& core_;
  Position position_;
  Dice dice_;
  std::vector<double> until_;  // sums of prices before each moment
  /// Nodes that hold something in a block of moments, block after block.
  std::vector<int32_t> block_nodes_;
  std::vector<size_t> first_of_block_;
  int32_t moments_of_block_ = 1;
  std::vector<int32_t> mark_;  // by node: the last neighbourhood that included it
  int32_t round_ = 0;
  int64_t work_ = 0;
};

}  // namespace tessera::solver
