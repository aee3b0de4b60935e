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
    refuse_data("no labels: " + both, "labels are whole numbers",
                "convert the array: labels.astype(\"i4\"), or numpy.argmax(labels, axis=1) of "
                "one-hot ones");
  const bool of_images = labels.size() == 1;
  const bool is_last = images.size() == 4 && layout == ImageLayout::kChannelsLast;
  const size_t rows = is_last ? 1 : images.size() - 2;  // the dim of the rows
  const bool of_pixels =
      labels.size() == 3 && labels[1] == images[rows] && labels[2] == images[rows + 1];
  if (!of_images && !of_pixels)
    refuse_data("the labels do not fit the images: " + both,
                "labels are [N], one an image, or [N,H,W], one a pixel",
                labels.size() == 2 ? "take numpy.argmax(labels, axis=1) when they are one-hot"
                                   : "reshape the array of labels");
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

/// The largest of the whole numbers, which are all in [0, limit) or ignored; -1 when all of them
/// are ignored.
template <typename IsIgnored>
int64_t largest_of(const StoredArray& array, std::string_view what, int64_t limit,
                   const IsIgnored& is_ignored, const std::string& fix) {
  double largest = -1;
  for (int64_t i = 0; i < array.size(); ++i) {
    const double value = array.at(i);
    if (is_ignored(value)) continue;
    if (value < 0 || value >= static_cast<double>(limit))
      refuse_data(fmt::format("'{}' has the {} {} at {}", array.file(), what,
                              static_cast<int64_t>(value), array.place_text(i)),
                  fmt::format("a {} is at least 0 and below {}", what, limit), fix);
    largest = std::max(largest, value);
  }
  return static_cast<int64_t>(largest);
}

/// Is a label of a file one that is not counted?
bool is_ignored_label(double label, int64_t ignore_label) {
  return label == kIgnoredLabel || label == static_cast<double>(ignore_label);
}

/// Refuses numbers that f32 cannot hold: one of them makes every loss of a run not a number.
void check_finite(const StoredArray& images) {
  if (images.is_whole()) return;
  for (int64_t i = 0; i < images.size(); ++i) {
    if (std::isfinite(static_cast<float>(images.at(i)))) continue;
    refuse_data(fmt::format("'{}' has the number {} at {}", images.file(), images.at(i),
                            images.place_text(i)),
                "the numbers of samples are finite in f32",
                "look for the step of the preparation that makes such numbers, and save the array "
                "again");
  }
}

/// Refuses whole numbers that a network would take as they are: bytes are scaled to [0, 1], and
/// these, of a wider type, are not.
void check_scaled(const StoredArray& images) {
  if (!images.is_whole() || images.type() == StoredType::kU8) return;
  for (int64_t i = 0; i < images.size(); ++i) {
    if (std::abs(images.at(i)) <= 1) continue;
    refuse_data(
        fmt::format("'{}' has the pixel {} at {} and is of {}", images.file(),
                    static_cast<int64_t>(images.at(i)), images.place_text(i),
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

/// Reads lines of tokens.
class TokenLines {
 public:
  TokenLines(int64_t vocabulary, int64_t ignore_label)
      : limit_(vocabulary > 0 ? vocabulary : kMaxInferredVocabulary), ignore_label_(ignore_label) {}

  /// Appends the tokens of one line, and what is predicted in their place.
  void append(std::string_view line, const std::string& where, LabelledTokens& all) const {
    const Document document = parse(line, where);
    const Document* list = document.is_table() ? document.find("tokens") : &document;
    if (!list || !list->is_list())
      refuse(where, "it is neither a list nor a table with a list 'tokens'");
    const Document* labels = document.is_table() ? document.find("labels") : nullptr;
    const Document* mask = document.is_table() ? document.find("mask") : nullptr;
    if (labels && mask) refuse(where, "it has both 'labels' and 'mask'");
    for (const Document& token : list->as_list())
      all.tokens.push_back(whole(token, "token", where));
    const size_t count = list->as_list().size();
    if (all.targets.empty() && (labels || mask))
      all.targets.assign(all.tokens.begin(), all.tokens.end() - static_cast<int64_t>(count));
    if (labels)
      for (const Document& label : each(*labels, "labels", count, where))
        all.targets.push_back(label_of(label, where));
    else if (mask)
      append_masked(each(*mask, "mask", count, where), where, all);
    else if (!all.targets.empty())
      all.targets.insert(all.targets.end(), all.tokens.end() - static_cast<int64_t>(count),
                         all.tokens.end());
  }

 private:
  [[noreturn]] static void refuse(const std::string& where, const std::string& why) {
    refuse_data(where + " is no line of tokens", why,
                "write {\"tokens\": [1, 2, 3]} or [1, 2, 3] on a line of its own, or "
                "{\"tokens\": [1, 2], \"labels\": [-1, 2]}");
  }

  static Document parse(std::string_view line, const std::string& where) {
    try {
      return parse_json(line, where);
    } catch (const UserError& error) {
      refuse(where, error.what_happened() + "; " + error.why());
    }
  }

  int32_t whole(const Document& number, const std::string& what, const std::string& where) const {
    if (!number.is_int())
      refuse(where,
             "a " + what + " is a whole number, and one of these is " + excerpt(to_json(number)));
    if (number.as_int() < 0 || number.as_int() >= limit_)
      refuse_data(fmt::format("{} has the {} {}", where, what, number.as_int()),
                  fmt::format("a {} is at least 0 and below {}", what, limit_),
                  what == "label" ? "write -1 for a label that is not counted, set "
                                    "data.ignore_label, or correct the file"
                                  : "set data.vocabulary to the number of different tokens, or "
                                    "correct the file");
    return static_cast<int32_t>(number.as_int());
  }

  int32_t label_of(const Document& label, const std::string& where) const {
    const bool is_ignored =
        label.is_int() && (label.as_int() == kIgnoredLabel || label.as_int() == ignore_label_);
    return is_ignored ? kIgnoredLabel : whole(label, "label", where);
  }

  static const Document::List& each(const Document& list, const std::string& key, size_t count,
                                    const std::string& where) {
    if (!list.is_list() || list.as_list().size() != count)
      refuse(where, fmt::format("'{}' is no list of {}, one for each token", key, count));
    return list.as_list();
  }

  static void append_masked(const Document::List& mask, const std::string& where,
                            LabelledTokens& all) {
    for (const Document& entry : mask) {
      const bool is_number = entry.is_int() && (entry.as_int() == 0 || entry.as_int() == 1);
      if (!entry.is_bool() && !is_number) refuse(where, "an element of 'mask' is 0 or 1");
      const bool counts = is_number ? entry.as_int() == 1 : entry.as_bool();
      all.targets.push_back(counts ? all.tokens[all.targets.size()] : kIgnoredLabel);
    }
  }

  int64_t limit_, ignore_label_;
};

/// Calls visit(line, where) for each line that is not empty.
template <typename Visit>
void for_each_line(const std::filesystem::path& file, const Visit& visit) {
  const std::string text = read_inflated(file);
  int64_t number = 0;
  for (const std::string& line : split_text(text, '\n')) {
    ++number;
    if (!trim(line).empty()) visit(trim(line), fmt::format("'{}' line {}", file.string(), number));
  }
}

}  // namespace

ImageRows::ImageRows(StoredArray images, ImageLayout layout)
    : Dataset({image_field(images, layout)}),
      images_(std::move(images)),
      channels_last_(layout == ImageLayout::kChannelsLast && images_.shape().size() == 4) {
  check_scaled(images_);
  check_finite(images_);
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

ArrayImages::ArrayImages(LabelledArrays arrays, int64_t classes, ImageLayout layout,
                         int64_t ignore_label)
    : Dataset(labelled_fields(arrays, layout)),
      images_(std::move(arrays.images), layout),
      labels_(std::move(arrays.labels)),
      ignore_label_(ignore_label) {
  const int64_t largest = largest_of(
      labels_, "label", classes > 0 ? classes : kMaxClasses,
      [&](double label) { return is_ignored_label(label, ignore_label_); },
      "set data.classes to the number of classes, data.ignore_label to a label that is not "
      "counted, or correct the file");
  if (largest < 0)
    refuse_data("'" + labels_.file() + "' has no label that is counted",
                fmt::format("all are -1 or data.ignore_label, {}", ignore_label_),
                "give labels of classes, or correct data.ignore_label");
  classes_ = classes > 0 ? classes : largest + 1;
}

uint64_t ArrayImages::fingerprint() const {
  const uint64_t hash =
      stable_hash(fmt::format("{}", labels_.fingerprint()), images_.fingerprint());
  if (ignore_label_ == kIgnoredLabel) return hash;
  return stable_hash(fmt::format("without {}", ignore_label_), hash);
}

void ArrayImages::write(int64_t sample, int64_t row, Batch& batch) const {
  images_.write(sample, row, batch);
  const auto labels = batch.row<int32_t>(kLabels, row);
  const int64_t first = sample * std::ssize(labels);
  for (int64_t i = 0; i < std::ssize(labels); ++i) {
    const double label = labels_.at(first + i);
    labels[i] =
        is_ignored_label(label, ignore_label_) ? kIgnoredLabel : static_cast<int32_t>(label);
  }
}

std::vector<int32_t> tokens_of(const StoredArray& array, int64_t vocabulary) {
  if (!array.is_whole())
    refuse_data(
        "'" + array.file() + "' holds no tokens",
        "its elements are " + std::string(to_text(array.type())) + ", and tokens are whole numbers",
        "save the array as u2, i4 or another type of whole numbers; images are given as "
        "data.images with data.labels");
  largest_of(
      array, "token", vocabulary > 0 ? vocabulary : kMaxInferredVocabulary,
      [](double) { return false; },
      "set data.vocabulary to the number of different tokens, or correct the file");
  std::vector<int32_t> tokens;
  tokens.reserve(array.size());
  for (int64_t i = 0; i < array.size(); ++i) tokens.push_back(static_cast<int32_t>(array.at(i)));
  return tokens;
}

std::vector<std::vector<int32_t>> read_token_rows(const std::filesystem::path& file,
                                                  int64_t vocabulary) {
  std::vector<std::vector<int32_t>> rows;
  const TokenLines lines(vocabulary, kIgnoredLabel);
  for_each_line(file, [&](std::string_view line, const std::string& where) {
    LabelledTokens row;
    lines.append(line, where, row);
    rows.push_back(std::move(row.tokens));
  });
  return rows;
}

LabelledTokens read_token_lines(const std::vector<std::filesystem::path>& files, int64_t vocabulary,
                                int64_t ignore_label) {
  LabelledTokens all;
  const TokenLines lines(vocabulary, ignore_label);
  for (const std::filesystem::path& file : files)
    for_each_line(file, [&](std::string_view line, const std::string& where) {
      lines.append(line, where, all);
    });
  return all;
}

}  // namespace tessera
