// Samples with names for their tensors, and the rows of a batch made of them: what every kind of
// data looks like to the rest of the house.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/split.h"
#include "base/tensor.h"
#include "data/sampler.h"

namespace tessera {

/// The field that every dataset for training has: what is to be predicted. A label below 0 is not
/// counted.
inline constexpr std::string_view kLabels = "labels";

/// One tensor of a sample: `tokens i32[64]`, `images f32[1,28,28]`. In a batch it has one more dim
/// in front, the rows.
struct Field {
  std::string name;
  TensorType type;

  bool operator==(const Field&) const = default;
};

/// Rows of samples: a tensor a field.
class Batch {
 public:
  /// Makes the tensors of `rows` rows; those that have the type already stay as they are.
  void resize(const std::vector<Field>& fields, int64_t rows);

  /// nullptr when there is none of this name.
  const Tensor* find(std::string_view name) const;
  /// requires  there is one of this name
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

/// Samples by number. Sample i is the same whoever makes it and whenever, so any rank can make
/// exactly its rows.
///
///   threads  any number at once: it is never changed
class Dataset {
 public:
  virtual ~Dataset() = default;

  const std::vector<Field>& fields() const { return fields_; }
  virtual int64_t samples() const = 0;
  /// Of all its samples: the same for the same samples.
  virtual uint64_t fingerprint() const = 0;
  /// Writes sample `sample` into row `row` of a batch that has these fields.
  virtual void write(int64_t sample, int64_t row, Batch& batch) const = 0;

  /// Rows [rows.begin, rows.end) of the batch of `step`.
  ///   requires  the sampler is made for samples() samples, and its batch has these rows
  Batch batch(const Sampler& sampler, int64_t step, Range rows) const;
  /// The same into a batch that is there already; its tensors are made anew only when their type is
  /// another.
  void fill(const Sampler& sampler, int64_t step, Range rows, Batch& batch) const;

 protected:
  explicit Dataset(std::vector<Field> fields) : fields_(std::move(fields)) {}

 private:
  std::vector<Field> fields_;
};

/// tokens i32[context] and labels i32[context]: what a language model takes.
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

/// Samples to train on and samples that training never sees.
struct DataSplit {
  DatasetPtr train, held_out;
};
/// The last `fraction` of the samples (to the nearest), at least one, is held out.
/// throws  UserError: fewer than two samples (65), or `fraction` is not in [0, 1) (78)
DataSplit hold_out(DatasetPtr whole, double fraction);

}  // namespace tessera
