// Makes data from stored arrays: samples of images with labels, and tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/gzip.h"
#include "base/random.h"
#include "base/text/text.h"
#include "training/data/array_files.h"

namespace tessera {
namespace {

std::string shape_text(const StoredArray& array) {
  std::vector<std::string> words;
  for (int64_t extent : array.shape()) words.push_back(std::to_string(extent));
  return std::string(to_text(array.type())) + "[" + join(words, ",") + "]";
}

void check_shapes(const LabelledArrays& arrays, ImageLayout layout) {
  const auto &images = arrays.images.shape(), &labels = arrays.labels.shape();
  const std::string both = "'" + arrays.images.file() + "' " + shape_text(arrays.images) +
                           " and '" + arrays.labels.file() + "' " + shape_text(arrays.labels);
  if (images.size() != 3 && images.size() != 4)
    refuse_data("no images: " + both, "images are [N,H,W] or [N,C,H,W]",
                "reshape the array of images");
  if (!arrays.labels.is_whole())
    refuse_data("no labels: " + both, "labels are whole numbers", "convert the array of labels");
  const bool of_images = labels.size() == 1;
  const bool is_last = images.size() == 4 && layout == ImageLayout::kChannelsLast;
  const size_t rows = is_last ? 1 : images.size() - 2;  // the dim of the rows
  const bool of_pixels =
      labels.size() == 3 && labels[1] == images[rows] && labels[2] == images[rows + 1];
  if (!of_images && !of_pixels)
    refuse_data("the labels do not fit the images: " + both,
                "labels are [N], one an image, or [N,H,W], one a pixel",
                "reshape the array of labels");
  if (labels[0] != images[0] || labels[0] == 0)
    refuse_data("the labels do not fit the images: " + both,
                "images and labels must have the same length, of at least 1",
                "give the two files of one data set");
}

/// Refuses [N,H,W,C] that looks like [N,C,H,W]: the last dim could be channels, the second hardly.
void check_layout(const StoredArray& images, ImageLayout layout) {
  const std::vector<int64_t>& shape = images.shape();
  const auto may_be_channels = [](int64_t extent) { return extent >= 1 && extent <= 4; };
  if (layout != ImageLayout::kUnknown || shape.size() != 4 || may_be_channels(shape[1]) ||
      !may_be_channels(shape[3]))
    return;
  refuse_data(
      fmt::format("the layout of the images is not clear: '{}' {}", images.file(),
                  shape_text(images)),
      fmt::format("as [N,C,H,W] they have {} channels of {} x {}, as [N,H,W,C] {} of {} x {}",
                  shape[1], shape[2], shape[3], shape[3], shape[1], shape[2]),
      "set data.layout = \"nhwc\", or \"nchw\"");
}

/// The field of images without labels.
Field image_field(const StoredArray& images, ImageLayout layout) {
  const std::vector<int64_t>& shape = images.shape();
  if (shape.size() != 3 && shape.size() != 4)
    refuse_data("no images: '" + images.file() + "' " + shape_text(images),
                "images are [N,H,W] or [N,C,H,W]", "reshape the array of images");
  check_layout(images, layout);
  std::vector<int64_t> image(shape.begin() + 1, shape.end());
  if (image.size() == 2)
    image.insert(image.begin(), 1);
  else if (layout == ImageLayout::kChannelsLast)
    std::rotate(image.begin(), image.begin() + 2, image.end());
  return {"images", {DType::kF32, Shape(std::span<const int64_t>(image))}};
}

std::vector<Field> labelled_fields(const LabelledArrays& arrays, ImageLayout layout) {
  check_shapes(arrays, layout);
  const std::vector<int64_t> label(arrays.labels.shape().begin() + 1, arrays.labels.shape().end());
  return {image_field(arrays.images, layout),
          {std::string(kLabels), {DType::kI32, Shape(std::span<const int64_t>(label))}}};
}

/// The largest of the whole numbers, which are all in [0, limit).
int64_t largest_of(const StoredArray& array, std::string_view what, int64_t limit,
                   const std::string& fix) {
  double largest = 0;
  for (int64_t i = 0; i < array.size(); ++i) {
    const double value = array.at(i);
    if (value < 0 || value >= static_cast<double>(limit))
      refuse_data(fmt::format("'{}' has the {} {} at offset {}", array.file(), what,
                              static_cast<int64_t>(value), array.offset_of(i)),
                  fmt::format("a {} is at least 0 and below {}", what, limit), fix);
    largest = std::max(largest, value);
  }
  return static_cast<int64_t>(largest);
}

/// Refuses whole numbers that a network would take as they are: bytes are scaled to [0, 1], and
/// these, of a wider type, are not.
void check_scaled(const StoredArray& images) {
  if (!images.is_whole() || images.type() == StoredType::kU8) return;
  for (int64_t i = 0; i < images.size(); ++i) {
    if (std::abs(images.at(i)) <= 1) continue;
    refuse_data(
        fmt::format("'{}' has the pixel {} at offset {} and is of {}", images.file(),
                    static_cast<int64_t>(images.at(i)), images.offset_of(i),
                    to_text(images.type())),
        "only u1 is scaled from 0 to 255 to 0 to 1; other whole numbers stay as they are, and "
        "must be within -1 and 1",
        "save the images as u1, or as f4 with the numbers that the model is to see");
  }
}

constexpr int64_t kMaxClasses = 1 << 24;
/// The largest vocabulary that is concluded from the tokens of a file. One damaged token would
/// otherwise make a model of gigabytes.
constexpr int64_t kMaxInferredVocabulary = 1 << 18;

/// Appends the tokens of one line.
void append_tokens(std::string_view line, const std::string& where, int64_t limit,
                   std::vector<int32_t>& tokens) {
  Document document;
  const auto is_wrong = [&](const std::string& why) {
    refuse_data(where + " is no line of tokens", why,
                "write {\"tokens\": [1, 2, 3]} or [1, 2, 3] on a line of its own");
  };
  try {
    document = parse_json(line, where);
  } catch (const UserError& error) {
    is_wrong(error.what_happened() + "; " + error.why());
  }
  const Document* list = document.is_table() ? document.find("tokens") : &document;
  if (!list || !list->is_list()) is_wrong("it is neither a list nor a table with a list 'tokens'");
  for (const Document& token : list->as_list()) {
    if (!token.is_int())
      is_wrong("a token is a whole number, and one of these is " + to_json(token));
    if (token.as_int() < 0 || token.as_int() >= limit)
      refuse_data(fmt::format("{} has the token {}", where, token.as_int()),
                  fmt::format("a token is at least 0 and below {}", limit),
                  "set data.vocabulary to the number of different tokens, or correct the file");
    tokens.push_back(static_cast<int32_t>(token.as_int()));
  }
}

}  // namespace

ImageRows::ImageRows(StoredArray images, ImageLayout layout)
    : Dataset({image_field(images, layout)}),
      images_(std::move(images)),
      channels_last_(layout == ImageLayout::kChannelsLast && images_.shape().size() == 4) {
  check_scaled(images_);
}

void ImageRows::write(int64_t sample, int64_t row, Batch& batch) const {
  const float scale = images_.type() == StoredType::kU8 ? 1.0f / 255 : 1.0f;
  const auto pixels = batch.row<float>("images", row);
  const int64_t first = sample * std::ssize(pixels);
  const int64_t channels = channels_last_ ? images_.shape()[3] : 1;
  const int64_t positions = std::ssize(pixels) / channels;
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t i = 0; i < positions; ++i)
      pixels[channel * positions + i] =
          scale * static_cast<float>(images_.at(first + i * channels + channel));
}

ArrayImages::ArrayImages(LabelledArrays arrays, int64_t classes, ImageLayout layout)
    : Dataset(labelled_fields(arrays, layout)),
      images_(std::move(arrays.images), layout),
      labels_(std::move(arrays.labels)) {
  const int64_t largest =
      largest_of(labels_, "label", classes > 0 ? classes : kMaxClasses,
                 "set data.classes to the number of classes, or correct the file");
  classes_ = classes > 0 ? classes : largest + 1;
}

uint64_t ArrayImages::fingerprint() const {
  return stable_hash(fmt::format("{}", labels_.fingerprint()), images_.fingerprint());
}

void ArrayImages::write(int64_t sample, int64_t row, Batch& batch) const {
  images_.write(sample, row, batch);
  const auto labels = batch.row<int32_t>(kLabels, row);
  const int64_t first = sample * std::ssize(labels);
  for (int64_t i = 0; i < std::ssize(labels); ++i)
    labels[i] = static_cast<int32_t>(labels_.at(first + i));
}

std::vector<int32_t> tokens_of(const StoredArray& array, int64_t vocabulary) {
  if (!array.is_whole())
    refuse_data(
        "'" + array.file() + "' holds no tokens",
        "its elements are " + std::string(to_text(array.type())) + ", and tokens are whole numbers",
        "save the array as i4, i8 or u1; images are given as data.images with data.labels");
  largest_of(array, "token", vocabulary > 0 ? vocabulary : kMaxInferredVocabulary,
             "set data.vocabulary to the number of different tokens, or correct the file");
  std::vector<int32_t> tokens;
  tokens.reserve(array.size());
  for (int64_t i = 0; i < array.size(); ++i) tokens.push_back(static_cast<int32_t>(array.at(i)));
  return tokens;
}

std::vector<std::vector<int32_t>> read_token_rows(const std::filesystem::path& file,
                                                  int64_t vocabulary) {
  std::vector<std::vector<int32_t>> rows;
  const std::string text = read_inflated(file);
  int64_t number = 0;
  for (const std::string& line : split_text(text, '\n')) {
    ++number;
    if (!trim(line).empty())
      append_tokens(trim(line), fmt::format("'{}' line {}", file.string(), number),
                    vocabulary > 0 ? vocabulary : kMaxInferredVocabulary, rows.emplace_back());
  }
  return rows;
}

std::vector<int32_t> read_token_lines(const std::vector<std::filesystem::path>& files,
                                      int64_t vocabulary) {
  std::vector<int32_t> tokens;
  for (const std::filesystem::path& file : files)
    for (const std::vector<int32_t>& row : read_token_rows(file, vocabulary))
      tokens.insert(tokens.end(), row.begin(), row.end());
  return tokens;
}

}  // namespace tessera
