// Which registers the program of a stage has for the values of a divided graph, and at which ops of
// a micro-batch each of them is alive. This file knows graphs and placements, and no prices.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// The part of a step in which an op runs: a pass of each micro-batch, or once.
enum class StepPart { kForward, kInputGradient, kWeightGradient, kOnce };

/// The bytes that the registers of a unit take, on the rank with the largest parts.
struct UnitBytes {
  double variables = 0;  // and gradients that are accumulated: held all the time
  double sums = 0;       // of those, the gradients
  double kept = 0;       // that the forward of one micro-batch keeps for the backward
  double arriving =
      0;            // kept in addition by a stage that begins at the unit: earlier units made it
  double late = 0;  // that the input gradients of one micro-batch keep for the weight gradients
  /// The most at one op of a micro-batch beside what the unit and those before it keep of all
  /// micro-batches in flight, this one included. Below 0 where some of that is free again.
  double passing = 0;
  double once = 0;  // the most at one op that runs once, beside the variables
};

/// What the ops of a step are to its registers.
struct StepOps {
  std::vector<int> units;        // by op
  std::vector<StepPart> parts;   // by op
  std::vector<int> kernels;      // by op: one of those that are like it; -1: it has no results
  std::vector<OpId> of_kernels;  // by kernel: an op that has it
  int unit_count = 0;
};

class RegisterSpans {
 public:
  /// A value has a register as its op computes it, and one for each other placement in which it is
  /// read, from its first reader there. In a pass, ops run in the order of the graph. A result is
  /// written over an operand where the kernel may do so and the operand has no later reader.
  ///
  ///   sharded  of `graph`, on one mesh with micro-batches
  ///   ensures  what recomputation adds is alive from its second computation to its last reader
  RegisterSpans(const Graph& graph, const ShardedGraph& sharded, StepOps ops);

  /// By unit.
  ///   timed       a mesh of the axes of the sharding
  ///   workspaces  by kernel
  std::vector<UnitBytes> bytes(const MeshPtr& timed, std::span<const Bytes> workspaces) const;

 private:
  friend class SpanBuilder;

  struct Item {
    TensorType type;
    DistAttr attr;
  };
  /// A register is alive from a moment to another one, both included; with sign -1 it no longer is.
  struct Span {
    int item = 0;
    int unit = -1;  // the moments of this one only; -1: of all
    int begin = 0, end = 0;
    int sign = 1;
  };
  struct Moment {
    int at = 0, unit = 0;
    int kernel = -1;  // whose workspace is there
  };
  struct Sweep {
    std::vector<Moment> moments;
    std::vector<Span> by_begin, by_end;
  };
  struct Held {
    int item = 0, unit = 0;
  };

  /// By unit, the most bytes at one of its moments.
  std::vector<double> peaks(const Sweep& sweep, std::span<const double> item_bytes,
                            std::span<const Bytes> workspaces) const;

  int units_ = 0;
  std::vector<Item> items_;
  Sweep forward_, backward_, once_;
  std::vector<Held> variables_, sums_, kept_, arriving_, late_;
};

}  // namespace tessera
