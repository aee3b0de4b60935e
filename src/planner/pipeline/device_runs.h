// Runs of neighbouring ranks that may be a stage of a pipeline. This file knows clusters, and no
// graphs.
#pragma once

#include <vector>

#include "simulator/step/deployment.h"

namespace tessera {

/// The runs [first, first + size) of the ranks of a deployment.
///
///   runs    of up to eight ranks all; of more those inside of a machine that begin at a multiple
///           of their size and divide it, and those of whole machines, whose number divides that of
///           all machines. Of more than SearchPolicy::many_ranks ranks none is smaller than a
///           SearchPolicy::many_ranks-th of all, and machines are counted from a multiple of their
///           number
///   kinds   runs of one kind have equal devices and equal links between neighbours, in order
class DeviceRuns {
 public:
  static constexpr int kNone = -1;

  explicit DeviceRuns(const Deployment& deployment);

  int ranks() const { return ranks_; }
  int kinds() const { return static_cast<int>(firsts_.size()); }
  /// kNone when it is no run.
  int kind(Rank first, int size) const { return kinds_[first * (ranks_ + 1) + size]; }
  int size_of(int kind) const { return sizes_[kind]; }
  /// The first run of a kind.
  Rank first_of(int kind) const { return firsts_[kind]; }
  /// The sizes of the runs that begin at a rank, ascending.
  const std::vector<int>& sizes_at(Rank first) const { return sizes_at_[first]; }

 private:
  const int ranks_;
  std::vector<int> kinds_;  // by first rank and size
  std::vector<Rank> firsts_;
  std::vector<int> sizes_;
  std::vector<std::vector<int>> sizes_at_;
};

}  // namespace tessera
