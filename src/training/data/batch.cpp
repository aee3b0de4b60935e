#include "training/data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"

namespace tessera {
namespace {

TensorType with_rows(const TensorType& type, int64_t rows) {
  Shape shape{rows};
  for (int64_t extent : type.shape) shape.push_back(extent);
  return {type.dtype, shape};
}

}  // namespace

void Batch::resize(const std::vector<Field>& fields, int64_t rows) {
  names_.resize(fields.size());
  tensors_.resize(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    if (names_[i] != fields[i].name) names_[i] = fields[i].name;
    const TensorType type = with_rows(fields[i].type, rows);
    if (!(tensors_[i].type() == type)) tensors_[i] = Tensor(type);
  }
}

const Tensor* Batch::find(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? nullptr : &tensors_[found - names_.begin()];
}

const Tensor& Batch::at(std::string_view name) const {
  const Tensor* tensor = find(name);
  ensure(tensor != nullptr, "a tensor of the batch");
  return *tensor;
}

Tensor& Batch::at(std::string_view name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  ensure(found != names_.end(), "a tensor of the batch");
  return tensors_[found - names_.begin()];
}

Batch Dataset::batch(const Sampler& sampler, int64_t step, Range rows) const {
  Batch batch;
  fill(sampler, step, rows, batch);
  return batch;
}

void Dataset::fill(const Sampler& sampler, int64_t step, Range rows, Batch& batch) const {
  ensure(sampler.options().samples == samples(), "the sampler is made for this dataset");
  ensure(rows.begin <= rows.end, "rows of a batch");
  batch.resize(fields_, rows.size());
  for (int64_t row = rows.begin; row < rows.end; ++row)
    write(sampler.sample(step, row), row - rows.begin, batch);
}

void Dataset::fill_rows(const Sampler& sampler, int64_t step, std::span<const Range> rows,
                        Batch& batch) const {
  ensure(sampler.options().samples == samples(), "the sampler is made for this dataset");
  batch.resize(fields_, sampler.options().batch);
  for (const Range& range : rows)
    for (int64_t row = range.begin; row < range.end; ++row)
      write(sampler.sample(step, row), row, batch);
}

std::vector<Field> token_fields(int64_t context) {
  const TensorType type{DType::kI32, {std::max<int64_t>(context, 0)}};
  return {{"tokens", type}, {std::string(kLabels), type}};
}

SampleRange::SampleRange(DatasetPtr whole, Range range)
    : Dataset(whole->fields()), whole_(std::move(whole)), range_(range) {
  ensure(range_.begin >= 0 && range_.begin <= range_.end && range_.end <= whole_->samples(),
         "a range of the samples");
}

uint64_t SampleRange::fingerprint() const {
  return stable_hash(fmt::format("{} {}", range_.begin, range_.end), whole_->fingerprint());
}

DataSplit hold_out(DatasetPtr whole, double fraction) {
  if (!(fraction >= 0.0 && fraction < 1.0))
    throw UserError("a fraction of " + double_text(fraction) + " of the samples cannot be held out",
                    "the fraction is at least 0 and below 1",
                    "hold out a tenth, 0.1, or leave the default", ExitCode::kBadConfig);
  const int64_t count = whole->samples();
  if (count < 2)
    throw UserError(fmt::format("there are too few samples to hold out a part: {}", count),
                    "the part to train on and the part held out each need one", "give it more data",
                    ExitCode::kBadData);
  const int64_t held =
      std::clamp<int64_t>(std::llround(fraction * static_cast<double>(count)), 1, count - 1);
  return {std::make_shared<const SampleRange>(whole, Range{0, count - held}),
          std::make_shared<const SampleRange>(whole, Range{count - held, count})};
}

}  // namespace tessera
