// An assignment of a core with its cost and its slack at every moment, which are updated when it
// changes.
#pragma once

#include <vector>

#include "base/solver/internal/core.h"

namespace tessera::solver {

/// Numbers over moments. Adding to a range and finding the least of a range both take about the
/// square root of their count.
class SlackOverTime {
 public:
  explicit SlackOverTime(std::vector<Usage> slack);

  void add(int32_t begin, int32_t end, Usage change);
  /// The least of begin, ..., end - 1; kPlenty when the range is empty.
  Usage smallest(int32_t begin, int32_t end) const;
  /// The least of all, and the first moment that has it (-1 when there are no moments).
  Usage smallest() const;
  int32_t tightest() const;
  Usage at(int32_t moment) const { return slack_[moment] + added_[moment / kBlock]; }
  int32_t moments() const { return count_of(slack_); }
  /// The missing memory, summed over the moments.
  double missing() const;

  static constexpr Usage kPlenty = Usage{1} << 62;

 private:
  static constexpr int32_t kBlock = 128;
  void settle(int32_t block);

  std::vector<Usage> slack_;        // without the amounts that were added to whole blocks
  std::vector<Usage> added_, min_;  // by block
};

/// The distance of an assignment from feasibility, then its cost. The first difference decides.
struct Worth {
  int64_t forbidden = 0;  // forbidden pairs and strategies
  double missing = 0;     // memory, summed over the moments
  double cost = 0;        // of the entries that are not forbidden

  bool is_feasible() const { return forbidden == 0 && missing == 0; }
  auto operator<=>(const Worth&) const = default;
};

class Position {
 public:
  Position(const Core& core, Assignment assignment);

  const Core& core() const { return *core_; }
  const Assignment& assignment() const { return assignment_; }
  int32_t operator[](int32_t node) const { return assignment_[node]; }
  /// At least kNever when a forbidden pair is used.
  double cost() const { return forbidden_ > 0 ? kNever : cost_; }
  Worth worth() const { return {forbidden_, slack_.missing(), cost_}; }
  bool is_feasible() const { return forbidden_ == 0 && slack_.smallest() >= 0; }
  const SlackOverTime& slack() const { return slack_; }

  void set(int32_t node, int32_t strategy);
  /// The cost of each strategy of the node with its neighbours unchanged.
  void costs_here(int32_t node, std::vector<double>& costs) const;

 private:
  void count(double cost, int sign);

  const Core* core_;
  Assignment assignment_;
  double cost_ = 0;  // of the entries that are not forbidden
  int64_t forbidden_ = 0;
  SlackOverTime slack_;
};

}  // namespace tessera::solver
