// What each axis of a preset divides: the role of a tensor, from the structure of the graph.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "planner/presets/dim_classes.h"

namespace tessera {

/// The rows of the batch: dim 0 of every input.
std::vector<DimClassIndex> batch_classes(const Graph& graph, const DimClasses& dims);

/// What tensor parallelism divides: columns of a weight and the rows of the next one, heads,
/// channels of two convolutions in sequence, the states of a recurrence, the vocabulary.
///
///   a class   has a dim of a weight, or the rows of a table that is looked up, and none of an
///             input; it has at least SearchPolicy::flops_per_element of products, unless it is
///             looked up: that saves memory
///   ensures   no value has dims of two of them. Those that no op needs whole come first, then
///             those with the fewest exchanged elements. So the inside of a residual branch is
///             divided, not what the branches add up
std::vector<DimClassIndex> tensor_classes(const Graph& graph, const DimClasses& dims);

/// What the axis of space divides: rows of images, positions of a sequence. Of their products, few
/// (less than half of the operations) are with weights that have the dim, too. Those with the most
/// operations come first; no value has dims of two.
std::vector<DimClassIndex> space_classes(const Graph& graph, const DimClasses& dims);

/// The share of the products and convolutions of the forward that these classes divide.
double share_of_products(const DimClasses& dims, const std::vector<DimClassIndex>& chosen);

}  // namespace tessera
