// What a variable is in the forward graph, from the ops that read it, not from its name.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace tessera {

/// Of the weight of linear layers, the number of its leading dims that are their inputs: all
/// products of the forward contract these dims and keep the others. f32[128,4,32], which makes four
/// heads of 32 features from 128, has one. Nothing for other variables: of an embedding that is
/// also looked up, or also read by a product the other way round.
std::optional<int> input_dims_of_weight(const Graph& graph, ValueId variable);

/// The variable that `value` is, or of which it is a cast, as mixed precision makes them; nullptr
/// when it is none.
const Variable* variable_after(const Graph& graph, ValueId value);

/// Is the variable a bias: does the forward only add it to results of products?
bool is_bias(const Graph& graph, ValueId variable);

}  // namespace tessera
