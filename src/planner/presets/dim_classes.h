// The dims of a graph that are divided together: those that ops connect by the factors of their
// sharding rules. This file knows structure, no names, plans or meshes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "base/units.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/rules.h"

namespace tessera {

using DimClassIndex = Index<struct DimClassTag>;

/// A dim of a value.
struct ValueDim {
  ValueId value;
  int dim = 0;

  bool operator==(const ValueDim&) const = default;
};

/// Dims that one mesh axis divides without an exchange between the ops that they connect, and what
/// the division would save and cost. Example, of a feed-forward block:
///
///     h = dot_general(x[b, i], up[i, o]); y = dot_general(relu(h)[b, o], down[o, e])
///     {up dim 1, h dim 1, relu dim 1, down dim 0}: y is partial, and so is the gradient of x
struct DimClass {
  std::vector<ValueDim> members;  // in the order of values
  int64_t extent = 0;             // the least number of units of a factor
  Flops flops{0};                 // of the forward ops that it divides
  /// Of these, the flops of ops that reduce over another factor: products and convolutions.
  Flops product_flops{0};
  /// Elements that are summed or gathered: in the forward the results that become partial, in the
  /// backward the operands that are needed whole.
  double exchanged = 0;
  /// Products with parameters that have a dim of it, and look-ups of rows of them.
  std::vector<OpId> weight_ops = {};
  std::vector<ValueId> sums = {};  // results of these that the division makes partial
  bool looks_up = false;           // a factor of it is a masked reduction: rows of a table
  /// A parameter that an op reduces over has a dim of it: columns, rows, channels, vocabulary.
  bool has_weights = false;
  Flops weight_flops{0};         // of product_flops, those of such ops
  bool is_needed_whole = false;  // an op takes a dim of it undivided
  bool is_recurrent = false;     // a parameter has two dims of it: the state of a recurrence
};

struct DimClasses {
  IndexedVector<DimClassIndex, DimClass> classes;    // in the order of their first members
  std::vector<std::vector<DimClassIndex>> of_value;  // by value and dim; none: no axis may
  Flops product_flops{0};  // of all products and convolutions of the forward

  DimClassIndex at(ValueDim member) const { return of_value[member.value.index][member.dim]; }
};

/// The classes of the forward ops of a training graph.
///
///   one dim   a dim that merges several dims belongs to the class of its first factor, which is
///             that of its outermost part
///   recurrent a dim of a parameter that is reduced over belongs to no class if another dim of the
///             parameter is of the same class: there the state is gathered, not summed
///   time      O(ops x factors)
DimClasses dim_classes_of(const Graph& graph);

/// Has an input a dim of the class, such as the rows of the batch?
bool has_input(const Graph& graph, const DimClass& dim);

/// May a loss depend on the value through a trainable parameter? By value, of forward values.
std::vector<bool> depend_on_parameters(const Graph& graph);

}  // namespace tessera
