// Mixed precision: the serial graph with products, convolutions and attention in 16 bits, and with
// what needs the range or the digits of f32 in f32. It is a rewrite of the graph before sharding,
// so placements, plans, verification and prices are those of an ordinary graph.
#pragma once

#include <string_view>
#include <vector>

#include "ir/autodiff/optimizer.h"
#include "ir/graph/graph.h"

namespace tessera {

/// The element types of a training step. Variables are f32 with every precision: the parameters are
/// the master weights, and checkpoints do not change.
struct Precision {
  DType dtype = DType::kF32;  // f32, bf16 or f16: of products and of what is between them
  /// In which ranks send their parts of the gradients of parameters that products read: f32, or
  /// `dtype`. A rank adds them up in f32.
  DType gradients = DType::kF32;
  LossScale scale = {};  // with f16

  /// Is the loss scaled? f16 has no numbers for small gradients.
  bool scales_loss() const { return dtype == DType::kF16; }
};

/// The forward graph with its ops in the element types of a precision.
///
///   16 bits   dot_general, convolution, attention, the grouped products: their operands are cast
///   f32       ops that need its range or its digits: exponentials, logarithms, divisions, powers,
///             roots, reductions to sums and products, cumulative sums; ops with regions; operators
///             of the user; random numbers
///   as given  all others: 16 bits if an operand is, and none that depends on data is f32. Operands
///             that depend only on variables and constants are cast to the type of the others. So
///             norms, softmax and losses are f32 from their first sum on
///
///   requires  dtype is f32, bf16 or f16; f32 returns the graph as it is
///   ensures   inputs, variables and outputs have their types and names, ops their names. A value
///             is cast once to each type: `<value>.bf16`, `<value>.f32`, with the derivation
///             "precision". A value that becomes f32 only to be rounded again by all its readers is
///             computed in 16 bits, if its op only moves or selects elements
///   source    Micikevicius et al., "Mixed Precision Training", ICLR 2018; the lists of torch.amp
Graph with_precision(Graph forward, DType dtype);

/// The element type of most of the arithmetic of the products, convolutions and attention of a
/// graph; f32 when it has none.
DType type_of_products(const Graph& graph);

/// A graph and the values of another one in it.
struct TypedGradients {
  Graph graph;
  std::vector<ValueId> value;  // by value of the graph before; invalid where it is gone
};

/// The graph, with the sums that make gradients of variables in f32: where a sum of products or of
/// elements is read by a cast to f32 alone, directly or through additions and moves of elements, it
/// has the type f32 itself, and the cast is gone. So a rank adds up gradients of weights, over rows
/// and micro-batches, without a rounding to 16 bits.
///
///   dtype    in which ranks send their parts of the sums. f32: they are rounded nowhere. 16 bits:
///            they are cast to 16 bits and back to f32 in place of the cast that is gone, and a
///            partial sum is cast part by part (kCastsParts), so that the parts are sent in 16 bits
///   changes  backward ops of dot_general, the convolutions, scatter_add, reduce, grouped products
///   ensures  names of other values than casts do not change; with 16 bits the gradient that the
///            optimizer reads has the name that it has before
TypedGradients with_gradients_in(const Graph& graph, DType dtype);

}  // namespace tessera
