// Language models of recurrent cells, unrolled over the context with one op per position, so that
// plans divide them like any other program. The state before the first position is zero, and
// nothing is carried from sample to sample. Weights are sampled uniformly from +-1/sqrt(width), as
// is usual.
//   source  Hochreiter and Schmidhuber, Neural Computation 9(8), 1997, with the forget gate of Gers
//           et al., 2000; Cho et al., arXiv 1406.1078, with the reset gate after the product as in
//           cuDNN
#include <cmath>
#include <vector>

#include "ir/models/internal/blocks.h"
#include "ir/models/internal/families.h"

namespace tessera {
namespace {

/// The state of one layer between positions.
struct CellState {
  ValueId hidden;  // [B,H]
  ValueId cell;    // [B,H], of the lstm
};

/// The parameters of a layer whose cell has `gates` gates.
struct CellWeights {
  ValueId input, hidden;            // [E,gates,H], [H,gates,H]
  ValueId input_bias, hidden_bias;  // [gates,H]
};

CellWeights cell_weights(Builder& builder, int64_t in, int64_t width, int64_t gates) {
  const double reach = 1 / std::sqrt(static_cast<double>(width));
  const Initializer initial = Initializer::uniform(-reach, reach);
  CellWeights weights;
  weights.input = builder.variable("weight_ih", {DType::kF32, {in, gates, width}}, initial);
  weights.hidden = builder.variable("weight_hh", {DType::kF32, {width, gates, width}}, initial);
  weights.input_bias = builder.variable("bias_ih", {DType::kF32, {gates, width}}, initial);
  weights.hidden_bias = builder.variable("bias_hh", {DType::kF32, {gates, width}}, initial);
  return weights;
}

/// x[B,T,gates,H] at a position, [B,gates,H].
ValueId at_place(Builder& builder, ValueId x, int64_t place) {
  const Shape shape = builder.shape(x);
  const ValueId one = builder.slice(x, {0, place, 0, 0}, {shape[0], place + 1, shape[2], shape[3]},
                                    {1, 1, 1, 1}, "place");
  return builder.reshape(one, {shape[0], shape[2], shape[3]}, "inputs");
}

/// Gate `index` of gates[B,gates,H], [B,H].
ValueId gate(Builder& builder, ValueId gates, int64_t index, std::string_view name) {
  const auto scope = builder.scope(name);
  const Shape shape = builder.shape(gates);
  const ValueId one =
      builder.slice(gates, {0, index, 0}, {shape[0], index + 1, shape[2]}, {1, 1, 1}, "slice");
  return builder.reshape(one, {shape[0], shape[2]}, "sum");
}

ValueId opened(Builder& builder, ValueId gates, int64_t index, std::string_view name) {
  return builder.unary("logistic", gate(builder, gates, index, name), name);
}

/// h[B,H] w[H,gates,H] + bias.
ValueId from_hidden(Builder& builder, ValueId hidden, const CellWeights& weights) {
  const ValueId product = builder.dot(hidden, weights.hidden, "bh,hgk->bgk", "hidden");
  const Shape shape = builder.shape(product);
  return builder.add(product, builder.broadcast_leading(weights.hidden_bias, shape, "hidden_bias"),
                     "from_hidden");
}

/// inputs[B,4,H] are those of the position, with the bias. i, f, g, o: c' = f c + i g, h' = o
/// tanh(c').
CellState lstm_cell(Builder& builder, ValueId inputs, const CellState& state,
                    const CellWeights& weights) {
  const ValueId gates = builder.add(inputs, from_hidden(builder, state.hidden, weights), "gates");
  const ValueId in = opened(builder, gates, 0, "i");
  const ValueId forget = opened(builder, gates, 1, "f");
  const ValueId candidate = builder.unary("tanh", gate(builder, gates, 2, "g"), "g");
  const ValueId out = opened(builder, gates, 3, "o");
  const ValueId kept = builder.mul(forget, state.cell, "kept");
  const ValueId added = builder.mul(in, candidate, "added");
  CellState next;
  next.cell = builder.add(kept, added, "cell");
  next.hidden = builder.mul(out, builder.unary("tanh", next.cell, "cell_tanh"), "hidden_state");
  return next;
}

/// inputs[B,3,H]. r, z, n: n = tanh(input n + r (hidden n)), h' = (1 - z) n + z h = n + z (h - n).
CellState gru_cell(Builder& builder, ValueId inputs, const CellState& state,
                   const CellWeights& weights) {
  const ValueId from = from_hidden(builder, state.hidden, weights);
  const ValueId gates = builder.add(inputs, from, "gates");
  const ValueId reset = opened(builder, gates, 0, "r");
  const ValueId update = opened(builder, gates, 1, "z");
  const ValueId remembered = builder.mul(reset, gate(builder, from, 2, "n_hidden"), "remembered");
  const ValueId candidate = builder.unary(
      "tanh", builder.add(gate(builder, inputs, 2, "n_input"), remembered, "n_sum"), "n");
  const ValueId difference = builder.sub(state.hidden, candidate, "difference");
  return {builder.add(candidate, builder.mul(update, difference, "step"), "hidden_state"), {}};
}

using Cell = CellState (*)(Builder&, ValueId, const CellState&, const CellWeights&);

/// x[B,T,E] through one layer, [B,T,H].
ValueId recurrent_layer(LayerContext& context, ValueId x, int64_t width, int64_t gates, Cell cell) {
  Builder& builder = context.builder;
  const Shape shape = builder.shape(x);
  const CellWeights weights = cell_weights(builder, shape[2], width, gates);
  // The product of all positions at once.
  const ValueId product = builder.dot(x, weights.input, "bte,egh->btgh", "input");
  const Shape inner = builder.shape(product);
  const ValueId inputs = builder.add(
      product, builder.broadcast_leading(weights.input_bias, inner, "input_bias"), "from_input");
  const ValueId zero = builder.constant({DType::kF32, {shape[0], width}}, 0, "start");
  CellState state{zero, zero};
  std::vector<ValueId> found;
  for (int64_t place = 0; place < shape[1]; ++place) {
    const auto scope = builder.scope("t" + std::to_string(place));
    state = cell(builder, at_place(builder, inputs, place), state, weights);
    found.push_back(builder.reshape(state.hidden, {shape[0], 1, width}, "row"));
  }
  return builder.concat(found, 1, "rows");
}

ValueId recurrent_logits(LayerContext& context, ValueId tokens, const ModelConfig& config,
                         int64_t gates, Cell cell) {
  ValueId x = embedding(context, tokens, config.vocabulary, config.embedding, "tokens");
  x = dropout(context, x, config.dropout, "dropout");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto scope = context.builder.scope("rnn." + std::to_string(layer));
    x = dropout(context, recurrent_layer(context, x, config.width, gates, cell), config.dropout,
                "dropout");
  }
  return linear(context, x, config.vocabulary, "head");
}

ValueId lstm_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  return recurrent_logits(context, tokens, config, 4, lstm_cell);
}

ValueId gru_logits(LayerContext& context, ValueId tokens, const ModelConfig& config) {
  return recurrent_logits(context, tokens, config, 3, gru_cell);
}

}  // namespace

ModelFamily lstm_family() {
  return {.name = "lstm",
          .keys = {"embedding"},
          .check = check_nothing,
          .logits = lstm_logits,
          .labels = all_labels,
          .next_token = next_of_causal};
}

ModelFamily gru_family() {
  return {.name = "gru",
          .keys = {"embedding"},
          .check = check_nothing,
          .logits = gru_logits,
          .labels = all_labels,
          .next_token = next_of_causal};
}

}  // namespace tessera
