#include "training/engine/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "base/error.h"
#include "ir/models/graphs.h"
#include "training/data/array_files.h"
#include "training/data/npy_writer.h"
#include "training/data/sampler.h"
#include "training/data/stored_name.h"
#include "training/data/token_rows.h"

namespace tessera {
namespace {

/// The type of one sample that the network reads.
Field sample_field(const Engine& engine) {
  const ValueId input = samples_input(engine.graph());
  const TensorType& whole = engine.graph().type(input);
  return {
      engine.graph().value(input).name,
      {whole.dtype, Shape(std::span<const int64_t>(whole.shape.begin() + 1, whole.shape.end()))}};
}

void check_samples(const Engine& engine, const Dataset& samples) {
  const Field wanted = sample_field(engine), &given = samples.fields().front();
  if (given == wanted) return;
  throw UserError(fmt::format("the data has samples {} {}, which do not fit {}", given.name,
                              to_text(given.type), engine.network().name),
                  fmt::format("the model reads {} {}", wanted.name, to_text(wanted.type)),
                  given.name == "images" && wanted.name == "images"
                      ? "give images of that shape; --set data.layout=nhwc where channels are last"
                      : "give data of that kind and shape",
                  ExitCode::kBadData);
}

/// The results of the first `rows` rows.
Predictions first_rows(const TensorMap& results, int64_t rows, int64_t first_row) {
  const auto found = results.find("logits");
  if (found == results.end() || found->second.dtype() != DType::kF32)
    throw UserError("the network predicts no logits",
                    "a prediction is written from the output `logits`, of type f32",
                    "give the prediction graph of the network an output `logits`",
                    ExitCode::kBadData);
  const Tensor& logits = found->second;
  const std::span<const float> values = logits.values<float>();
  const int64_t size = std::ssize(values) / logits.shape()[0];
  const auto kept = values.first(rows * size);
  const auto wrong = std::ranges::find_if_not(kept, [](float x) { return std::isfinite(x); });
  if (wrong != kept.end())
    throw UserError(fmt::format("the prediction of row {} is not finite",
                                first_row + (wrong - kept.begin()) / size),
                    "the row has values that are not finite or very large, or training diverged",
                    "check the values of the row, counted from 0, or use an earlier checkpoint",
                    ExitCode::kDiverged);
  Predictions first{{logits.shape().begin(), logits.shape().end()}, {kept.begin(), kept.end()}};
  first.shape.front() = rows;
  return first;
}

std::string list_text(std::span<const float> values, std::span<const int64_t> shape) {
  if (shape.empty()) return fmt::format("{}", values.front());
  const int64_t size = shape.front() > 0 ? std::ssize(values) / shape.front() : 0;
  std::string text = "[";
  for (int64_t i = 0; i < shape.front(); ++i)
    text += (i > 0 ? ", " : "") + list_text(values.subspan(i * size, size), shape.subspan(1));
  return text + "]";
}

}  // namespace

OwnSamples read_own_samples(const std::filesystem::path& file, const StoredRun& run) {
  const ModelConfig& model = run.config.model;
  if (is_of_images(objective_of(model))) {
    StoredArray images = is_npy(file) ? read_npy(file) : read_idx(file);
    return {std::make_shared<const ImageRows>(std::move(images), image_layout(run.config.data))};
  }
  const Vocabulary text = run.vocabulary.value_or(Vocabulary::bytes());
  const auto rows = read_rows(file, {.context = model.context,
                                     .vocabulary = model.vocabulary,
                                     .text = run.config.data.kind == "text" ? &text : nullptr});
  return {rows, rows->left_out()};
}

Predictions predict_all(Engine& engine, const Dataset& samples) {
  Predictions all;
  predict_each(engine, samples, [&](const Predictions& next) {
    if (all.shape.empty())
      all.shape = next.shape;
    else
      all.shape.front() += next.rows();
    all.values.insert(all.values.end(), next.values.begin(), next.values.end());
  });
  return all;
}

void predict_each(Engine& engine, const Dataset& samples, const OnPredictions& on_rows) {
  check_samples(engine, samples);
  const int64_t batch_rows = engine.config().train.batch;
  const Sampler sampler({.samples = samples.samples(),
                         .batch = batch_rows,
                         .parts = 1,
                         .shuffle = Shuffle::kNone,
                         .tail = Tail::kPad,
                         .seed = 0});
  Batch batch;
  const std::vector<Range> rows = engine.predicted_rows_here(batch_rows);
  for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    samples.fill_rows(sampler, step, rows, batch);
    const int64_t first = step * batch_rows;
    const int64_t count = std::min(batch_rows, samples.samples() - first);
    on_rows(first_rows(engine.predict(batch), count, first));
  }
}

Predictions likeliest_classes(const Predictions& logits) {
  Predictions classes{logits.shape, {}};
  const int64_t count = classes.shape.back();
  classes.shape.back() = 2;
  const std::span<const float> values = logits.values;
  for (int64_t at = 0; at < std::ssize(values); at += count) {
    const auto row = values.subspan(at, count);
    const auto best = std::ranges::max_element(row);
    double sum = 0;
    for (float logit : row) sum += std::exp(static_cast<double>(logit) - *best);
    classes.values.push_back(static_cast<float>(best - row.begin()));
    classes.values.push_back(static_cast<float>(1 / sum));
  }
  return classes;
}

std::string json_lines(const Predictions& predictions, PredictionKind kind) {
  const std::span<const float> values = predictions.values;
  const std::span<const int64_t> row_shape = std::span(predictions.shape).subspan(1);
  const int64_t size =
      std::accumulate(row_shape.begin(), row_shape.end(), int64_t{1}, std::multiplies<>());
  std::string text;
  for (int64_t row = 0; row < predictions.rows(); ++row) {
    const auto numbers = values.subspan(row * size, size);
    if (kind == PredictionKind::kLogits) {
      text += fmt::format("{{\"logits\": {}}}\n", list_text(numbers, row_shape));
      continue;
    }
    std::vector<float> classes, probabilities;
    for (int64_t i = 0; i < size; i += 2) {
      classes.push_back(numbers[i]);
      probabilities.push_back(numbers[i + 1]);
    }
    const auto positions = row_shape.first(row_shape.size() - 1);
    text += fmt::format("{{\"class\": {}, \"probability\": {}}}\n", list_text(classes, positions),
                        list_text(probabilities, positions));
  }
  return text;
}

PredictionFile::PredictionFile(const std::filesystem::path& path, PredictionKind kind, int64_t rows)
    : file_(path), is_npy_(path.extension() == ".npy"), kind_(kind), rows_(rows) {}

void PredictionFile::append(const Predictions& logits) {
  const Predictions next = kind_ == PredictionKind::kClasses ? likeliest_classes(logits) : logits;
  if (shape_.empty()) {
    shape_ = next.shape;
    shape_.front() = rows_;
    if (is_npy_) file_.append(npy_header(shape_));
  }
  const std::span<const float> values = next.values;
  if (is_npy_)
    file_.append({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  else
    file_.append(json_lines(next, kind_));
}

}  // namespace tessera
