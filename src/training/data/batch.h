// Samples as named tensors, and batches whose rows are samples: the interface of every kind of
// data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/split.h"
#include "base/tensor/tensor.h"
#include "training/data/sampler.h"

namespace tessera {

/// The field of the targets of the model families, whose loss ignores a label below 0. Networks of
/// users name their fields as they like.
inline constexpr std::string_view kLabels = "labels";

/// One tensor of a sample: `tokens i32[64]`, `images f32[1,28,28]`. A batch has one more dim in
/// front, the rows.
struct Field {
  std::string name;
  TensorType type;

  bool operator==(const Field&) const = default;
};

/// Rows of samples: one tensor for each field.
class Batch {
 public:
  /// Allocates tensors of `rows` rows. A tensor that already has the type is kept.
  void resize(const std::vector<Field>& fields, int64_t rows);

  /// nullptr when no field has this name.
  const Tensor* find(std::string_view name) const;
  /// requires  a field has this name
  const Tensor& at(std::string_view name) const;
  Tensor& at(std::string_view name);
  const std::vector<std::string>& names() const { return names_; }

  /// The elements of one row of a tensor.
  template <typename T>
  std::span<T> row(std::string_view name, int64_t row) {
    Tensor& tensor = at(name);
    const int64_t size = tensor.size() / tensor.shape()[0];
    return tensor.values<T>().subspan(row * size, size);
  }
  template <typename T>
  std::span<const T> row(std::string_view name, int64_t row) const {
    const Tensor& tensor = at(name);
    const int64_t size = tensor.size() / tensor.shape()[0];
    return tensor.values<T>().subspan(row * size, size);
  }

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
};

/// Samples by number. Sample i is the same on every rank and at any time, so a rank can produce
/// exactly its rows.
///
///   threads  any number at the same time, because a dataset is immutable
class Dataset {
 public:
  virtual ~Dataset() = default;

  const std::vector<Field>& fields() const { return fields_; }
  virtual int64_t samples() const = 0;
  /// A hash of all samples.
  virtual uint64_t fingerprint() const = 0;
  /// Writes sample `sample` into row `row` of a batch that has these fields.
  virtual void write(int64_t sample, int64_t row, Batch& batch) const = 0;

  /// Rows [rows.begin, rows.end) of the batch of `step`.
  ///   requires  the sampler is made for samples() samples, and its batch has these rows
  Batch batch(const Sampler& sampler, int64_t step, Range rows) const;
  /// The same into an existing batch. Its tensors are allocated again only when their type differs.
  void fill(const Sampler& sampler, int64_t step, Range rows, Batch& batch) const;
  /// Writes only some rows of the whole batch of `step`; no other sample is read. The other rows
  /// keep their content.
  void fill_rows(const Sampler& sampler, int64_t step, std::span<const Range> rows,
                 Batch& batch) const;

 protected:
  explicit Dataset(std::vector<Field> fields) : fields_(std::move(fields)) {}

 private:
  std::vector<Field> fields_;
};

/// The fields of a language model: tokens i32[context] and labels i32[context].
std::vector<Field> token_fields(int64_t context);

using DatasetPtr = std::shared_ptr<const Dataset>;

/// Samples [range.begin, range.end) of another dataset, counted from 0.
class SampleRange : public Dataset {
 public:
  SampleRange(DatasetPtr whole, Range range);
  int64_t samples() const override { return range_.size(); }
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    whole_->write(range_.begin + sample, row, batch);
  }

 private:
  DatasetPtr whole_;
  Range range_;
};

/// Samples for training and samples for validation.
struct DataSplit {
  DatasetPtr train, held_out;
};
/// Holds out the last `fraction` of the samples (rounded to the nearest number), at least one.
///   throws  UserError: 65 for fewer than two samples, 78 when `fraction` is not in [0, 1)
DataSplit hold_out(DatasetPtr whole, double fraction);

}  // namespace tessera
