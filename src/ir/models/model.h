// Whole models as serial graphs, from C++ or from the [model] table of a configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "ir/graph/graph.h"
#include "ir/models/internal/model_config.h"
#include "ir/ops/builder.h"

namespace tessera {

/// Reads and checks the [model] table. It has the keys of its family except vocabulary, classes and
/// image, which come from the data.
///   throws  as load_network for the file of a graph; UserError (78) for an unknown key (with the
///   most similar legal one), a value out of
///           range, heads that do not divide width (with the divisors), or an odd context where
///           halves are needed
ModelConfig read_model_config(ConfigTable table);

/// The values of model.kind: the families, and graph.
std::vector<std::string> model_kinds();

/// Replaces zeros by the defaults that they stand for.
ModelConfig with_defaults(ModelConfig config);

/// The settings of the family with defaults filled in: those that read_model_config reads, and
/// those that come from the data.
Document settings_of(const ModelConfig& config);

struct BuildOptions {
  int64_t batch = 1;     // rows of the whole step's batch
  bool training = true;  // enables dropout
  bool loss = true;      // false: only logits (no labels input)
  bool decode = false;   // reads one token of each row at a time: see can_decode
  uint64_t seed = 0;
};

/// The forward graph.
///
///   inputs    the samples first: tokens i32[batch, context] or images f32[batch, channels, rows,
///             columns]; labels i32[batch, context], of which each family slices those that it
///             predicts, or i32[batch] and i32[batch, rows, columns] for images; step i32[] when
///             training with dropout
///   outputs   logits f32[batch, positions, V] (gpt, llama: context positions; encoder_decoder:
///             context/2), f32[batch, V] (mlp, two_tower), f32[batch, classes] for images or
///             f32[batch, rows, columns, classes] for pixels; with loss: loss f32[], count f32[]
///   names     of the parameters: with each family in families.h
///   init      normal(0, 0.02); at the end of a residual branch normal(0, 0.02 / sqrt(branches));
///             biases 0; norms 1
///   requires  the conditions that read_model_config checks; throws InternalError otherwise
///   decode    tokens i32[batch, 1] are at the position `place` i32[]; logits f32[batch, 1, V] are
///             those of the row at that position. The same graph must have decoded the earlier
///             positions, in order: variables keep their keys and values. There is no loss and no
///             dropout
Graph build_model(const ModelConfig& config, const BuildOptions& options);

/// The values of a forward graph that its user may compute with.
struct ModelValues {
  ValueId logits;
  std::optional<ValueId> labels = {};  // with a loss: those that the logits predict
};
/// Writes the graph of build_model, with its inputs and outputs, into an empty one. The seed is
/// that of the builder.
ModelValues add_model(Builder& builder, const ModelConfig& config, const BuildOptions& options);

Objective objective_of(const ModelConfig& config);
bool is_of_images(Objective objective);
/// What a model of this objective learns, for messages: "the next token"; "" for kOther.
std::string_view learned_by(Objective objective);
/// The inverse; kOther for any other text.
Objective objective_named(std::string_view learned);

/// Is every token predicted only from the tokens before it, so that the model can be decoded? True
/// for gpt and llama.
bool can_decode(const ModelConfig& config);

/// The position of the prediction of the token after `used` known tokens. A model without a causal
/// mask expects the known tokens at the end of its context, after padding.
///   requires  used <= context, Objective::kNextToken
NextToken next_token(const ModelConfig& config, int64_t used);

}  // namespace tessera
