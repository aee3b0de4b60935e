// Arrays in the formats of other programs: IDX (MNIST), .npy (NumPy) and the binary files of CIFAR.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "training/data/batch.h"

namespace tessera {

/// The supported types of elements.
enum class StoredType { kU8, kI8, kU16, kI16, kU32, kI32, kI64, kF16, kF32, kF64 };
std::string_view to_text(StoredType type);  // "u8", "f64", ...
int64_t size_of(StoredType type);

/// The bytes of an array in memory. Elements are converted when they are read.
class StoredArray {
 public:
  /// `bytes` has the elements from `offset` on, in row-major order.
  StoredArray(std::string file, std::string bytes, size_t offset, StoredType type, bool big_endian,
              std::vector<int64_t> shape);

  const std::string& file() const { return file_; }
  StoredType type() const { return type_; }
  bool is_whole() const { return type_ < StoredType::kF16; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const;
  /// Element `index` in row-major order.
  double at(int64_t index) const;
  /// Where an element is, for messages: "index 50", or "index [0,2,1]" of several dims.
  std::string place_text(int64_t index) const;
  uint64_t fingerprint() const;

 private:
  std::string file_, bytes_;
  size_t offset_;
  StoredType type_;
  bool big_endian_;
  std::vector<int64_t> shape_;
};

/// Reads an array of any type except i64, big-endian, with 1 to 8 dims.
///   throws  UserError: 66 when the file cannot be read, 65 when it is malformed, with the offset
///   source  yann.lecun.com/exdb/mnist, "the IDX file format"
StoredArray read_idx(const std::filesystem::path& file);

/// Reads versions 1 and 2 with little-endian f2, f4, f8, i1, i2, i4, i8, u1, u2 or u4, in C order.
///   throws  UserError: 66 when the file cannot be read, 65 when it is malformed, with the offset
///   source  numpy.lib.format, NEP 1
StoredArray read_npy(const std::filesystem::path& file);

/// Images with one label each, or one label per pixel.
struct LabelledArrays {
  StoredArray images;  // [N,C,H,W], [N,H,W,C] or [N,H,W]
  StoredArray labels;  // [N], or one label per pixel: [N,H,W]
};
/// Reads records of labels and 3 x 32 x 32 bytes, of all files in order. Of the two labels of
/// CIFAR-100 it takes the fine one.
///   requires  classes is 10 or 100
///   throws    UserError: 66 when a file cannot be read, 65 when it is empty or ends within a
///             record, with the offset
///   source    www.cs.toronto.edu/~kriz/cifar.html, "binary version"
LabelledArrays read_cifar(const std::vector<std::filesystem::path>& files, int64_t classes);

/// The order of the dims of images. Images without a dim of channels have every layout.
enum class ImageLayout {
  kUnknown,        // [N,C,H,W], unless only the last dim looks like channels: then it must be said
  kChannelsFirst,  // [N,C,H,W]
  kChannelsLast,   // [N,H,W,C]
};

/// Images without labels as samples. Bytes become numbers in [0, 1], other elements stay, of which
/// whole numbers must be within -1 and 1; images [N,H,W] get a channel.
///
///   fields   images f32[C,H,W]
///   throws   UserError (65) for another shape and for whole numbers that are not scaled; for
///            kUnknown also images of 1 to 4 elements in the last dim and more in the second; for
///            numbers that are not finite in f32, with file and index
///   time     the constructor reads all elements of numbers other than bytes
class ImageRows : public Dataset {
 public:
  explicit ImageRows(StoredArray images, ImageLayout layout = ImageLayout::kUnknown);
  int64_t samples() const override { return images_.shape()[0]; }
  uint64_t fingerprint() const override { return images_.fingerprint(); }
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  StoredArray images_;
  bool channels_last_;
};

/// The label that is not counted in a batch, and in files.
inline constexpr int32_t kIgnoredLabel = -1;

/// Images and labels as samples; the images are those of ImageRows. Labels of kIgnoredLabel and of
/// `ignore_label` become kIgnoredLabel, which no loss counts.
///
///   fields   images f32[C,H,W], labels i32[] or i32[H,W]
///   classes  `classes`, or for 0 the largest label plus one
///   throws   UserError (65) as ImageRows; for different numbers of labels and images, labels that
///            are not integers or outside [0, classes), with file and index, or none that is
///            counted
class ArrayImages : public Dataset {
 public:
  ArrayImages(LabelledArrays arrays, int64_t classes, ImageLayout layout = ImageLayout::kUnknown,
              int64_t ignore_label = kIgnoredLabel);
  int64_t samples() const override { return labels_.shape()[0]; }
  int64_t classes() const { return classes_; }
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  ImageRows images_;
  StoredArray labels_;
  int64_t ignore_label_;
  int64_t classes_;
};

/// The tokens of an array of integers, row after row as one text. `vocabulary` 0 accepts any
/// tokens.
///   throws  UserError (65) for elements that are not integers or outside [0, vocabulary), with the
///           index
std::vector<int32_t> tokens_of(const StoredArray& array, int64_t vocabulary);

/// Tokens, and what is to be predicted in the place of each of them.
struct LabelledTokens {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;  // kIgnoredLabel: not counted; empty: the tokens
};

/// The tokens of lines of JSON, each {"tokens": [1, 2, ...]} or [1, 2, ...], concatenated in order.
/// Empty lines are skipped. A table may have `labels`, one for each token: what a model predicts
/// in its place, where kIgnoredLabel and `ignore_label` are not counted; or `mask`, 1 or true for
/// each token that is counted.
///   throws  UserError: 66 when a file cannot be read; 65 for another kind of line, for labels or a
///           mask of another length, or a token or label that is not an integer or outside
///           [0, vocabulary), with file and line
LabelledTokens read_token_lines(const std::vector<std::filesystem::path>& files, int64_t vocabulary,
                                int64_t ignore_label = kIgnoredLabel);
/// The tokens of each line of one file, which is not empty.  throws  as read_token_lines
std::vector<std::vector<int32_t>> read_token_rows(const std::filesystem::path& file,
                                                  int64_t vocabulary);

}  // namespace tessera
