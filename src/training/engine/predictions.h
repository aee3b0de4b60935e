// Predictions of a stored model for samples without labels, and their forms in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/files/file.h"
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
/// The same, batch by batch: on_rows(the next rows).
///   memory  the results of one batch
using OnPredictions = std::function<void(const Predictions&)>;
void predict_each(Engine& engine, const Dataset& samples, const OnPredictions& on_rows);

/// The likeliest class and its probability in the place of the logits: shape [..., 2].
///   source  softmax in double precision; among equal logits the lower class
Predictions likeliest_classes(const Predictions& logits);

enum class PredictionKind { kLogits, kClasses };
/// A JSON object for each row: {"logits": [0.5, -1.25]}, or {"class": 0, "probability": 0.85}, with
/// lists of lists where a row has several positions. Numbers have the shortest form that parses to
/// the same f32.
std::string json_lines(const Predictions& predictions, PredictionKind kind);

/// A file of predictions, .npy or .jsonl by its name, to which rows are appended as they are made.
class PredictionFile {
 public:
  ///   rows    of the whole file
  ///   throws  UserError (1) when the file cannot be written
  PredictionFile(const std::filesystem::path& path, PredictionKind kind, int64_t rows);

  /// Appends rows of logits, in the form of the kind.
  void append(const Predictions& logits);
  void finish() { file_.finish(); }
  /// The shape of the whole, after the first rows.
  const std::vector<int64_t>& shape() const { return shape_; }

 private:
  FileWriter file_;
  bool is_npy_;
  PredictionKind kind_;
  int64_t rows_;
  std::vector<int64_t> shape_ = {};
};

}  // namespace tessera
