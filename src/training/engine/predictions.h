// Predictions of a stored model for samples without labels, and their forms in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "training/engine/checkpointing.h"
#include "training/engine/engine.h"

namespace tessera {

/// The user's own samples for the model of a run: images of .npy or IDX, and tokens as
/// training/data/token_rows.h reads them.
struct OwnSamples {
  DatasetPtr samples;
  int64_t left_out_tokens = 0;  // that fill no row
};
///   throws  UserError: 66 when the file cannot be read; 65 when it is malformed, or its samples
///           have another shape or other tokens than the model reads
OwnSamples read_own_samples(const std::filesystem::path& file, const StoredRun& run);

/// Rows of numbers. One row belongs to one sample.
struct Predictions {
  std::vector<int64_t> shape;  // the rows first
  std::vector<float> values;

  int64_t rows() const { return shape.front(); }
};

/// The logits of all samples, in order: [rows, classes], [rows, positions, V] or
/// [rows, image rows, image columns, classes]. It runs batches of train.batch rows; the last one is
/// filled up with other samples, whose results are dropped.
///   throws  UserError: 65 when the network predicts no `logits` f32, or reads other samples; 5
///           when a result is not finite
///   memory  the results of all samples
Predictions predict_all(Engine& engine, const Dataset& samples);

/// The likeliest class and its probability in the place of the logits: shape [..., 2].
///   source  softmax in double precision; among equal logits the lower class
Predictions likeliest_classes(const Predictions& logits);

enum class PredictionKind { kLogits, kClasses };
/// A JSON object for each row: {"logits": [0.5, -1.25]}, or {"class": 0, "probability": 0.85}, with
/// lists of lists where a row has several positions. Numbers have the shortest form that parses to
/// the same f32.
std::string json_lines(const Predictions& predictions, PredictionKind kind);

}  // namespace tessera
