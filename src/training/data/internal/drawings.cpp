#include "training/data/internal/drawings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr int64_t kDotRows = 7, kDotColumns = 5;

/// The font: one digit after the other, each of seven rows of five dots.
constexpr std::array<std::string_view, kDigitClasses * kDotRows> kFont = {
    ".###.", "#...#", "#..##", "#.#.#", "##..#", "#...#", ".###.",  // 0
    "..#..", ".##..", "..#..", "..#..", "..#..", "..#..", ".###.",  // 1
    ".###.", "#...#", "....#", "...#.", "..#..", ".#...", "#####",  // 2
    "#####", "...#.", "..#..", "...#.", "....#", "#...#", ".###.",  // 3
    "...#.", "..##.", ".#.#.", "#..#.", "#####", "...#.", "...#.",  // 4
    "#####", "#....", "####.", "....#", "....#", "#...#", ".###.",  // 5
    "..##.", ".#...", "#....", "####.", "#...#", "#...#", ".###.",  // 6
    "#####", "....#", "...#.", "..#..", ".#...", ".#...", ".#...",  // 7
    ".###.", "#...#", "#...#", ".###.", "#...#", "#...#", ".###.",  // 8
    ".###.", "#...#", "#...#", ".####", "....#", "...#.", ".##..",  // 9
};

std::vector<Field> drawing_fields(const DrawingOptions& options, const Shape& labels) {
  ensure(options.samples >= 1 && options.size >= kMinDrawing, "options of drawings");
  return {{"images", {DType::kF32, {1, options.size, options.size}}},
          {std::string(kLabels), {DType::kI32, labels}}};
}

uint64_t hash_of(std::string_view what, const DrawingOptions& options) {
  return stable_hash(fmt::format("{} {} {} {} {}", what, options.samples, options.size,
                                 double_text(options.noise), options.seed));
}

/// Successive uniform random numbers of one sample. The noise of its pixels is another stream.
class SampleRandom {
 public:
  SampleRandom(const DrawingOptions& options, std::string_view what, int64_t sample)
      : stream_(random_key(options.seed, what), sample) {}
  double between(double low, double high) { return low + (high - low) * stream_.uniform(next_++); }
  int64_t below(int64_t count) {
    return std::min(static_cast<int64_t>(between(0, static_cast<double>(count))), count - 1);
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

void add_noise(std::span<float> pixels, const DrawingOptions& options, int64_t sample) {
  if (options.noise == 0) return;
  const RandomStream stream(random_key(options.seed, "drawing.noise"), sample);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] += static_cast<float>(options.noise) * stream.normal(i);
}

/// The amount of ink at (y, x), in dots from the corner of the digit. Between the middles of dots
/// it is interpolated.
double ink(int64_t digit, double y, double x) {
  const auto dot = [&](int64_t row, int64_t column) {
    const bool inside = row >= 0 && row < kDotRows && column >= 0 && column < kDotColumns;
    return inside && kFont[digit * kDotRows + row][column] == '#' ? 1.0 : 0.0;
  };
  const double top = std::floor(y - 0.5), left = std::floor(x - 0.5);
  const double down = y - 0.5 - top, right = x - 0.5 - left;
  const auto row = static_cast<int64_t>(top), column = static_cast<int64_t>(left);
  return (1 - down) * ((1 - right) * dot(row, column) + right * dot(row, column + 1)) +
         down * ((1 - right) * dot(row + 1, column) + right * dot(row + 1, column + 1));
}

/// The coordinate of the middle of a pixel.
double middle(int64_t pixel) {
  return static_cast<double>(pixel) + 0.5;
}

/// A shape around (y, x) that extends `reach` to each side.
struct DrawnShape {
  int64_t kind = 1;  // its class
  double y = 0, x = 0, reach = 1;

  bool covers(double at_y, double at_x) const {
    const double dy = at_y - y, dx = at_x - x;
    if (kind == 1) return dy * dy + dx * dx <= reach * reach;
    if (std::abs(dy) > reach) return false;
    return kind == 2 ? std::abs(dx) <= reach
                     : std::abs(dx) <= (dy + reach) / 2;  // a triangle on its base
  }
};

}  // namespace

DrawnDigits::DrawnDigits(const DrawingOptions& options)
    : Dataset(drawing_fields(options, {})), options_(options) {}

uint64_t DrawnDigits::fingerprint() const {
  return hash_of("digits", options_);
}

void DrawnDigits::write(int64_t sample, int64_t row, Batch& batch) const {
  SampleRandom random(options_, "digits", sample);
  const int64_t digit = random.below(kDigitClasses);
  const auto size = static_cast<double>(options_.size);
  const double dot = random.between(0.55, 0.9) * size / kDotRows;
  const double top = random.between(0, size - dot * kDotRows),
               left = random.between(0, size - dot * kDotColumns);
  const auto brightness = static_cast<float>(random.between(0.6, 1));
  const auto pixels = batch.row<float>("images", row);
  for (int64_t y = 0; y < options_.size; ++y)
    for (int64_t x = 0; x < options_.size; ++x)
      pixels[y * options_.size + x] =
          brightness *
          static_cast<float>(ink(digit, (middle(y) - top) / dot, (middle(x) - left) / dot));
  add_noise(pixels, options_, sample);
  batch.row<int32_t>(kLabels, row)[0] = static_cast<int32_t>(digit);
}

DrawnShapes::DrawnShapes(const DrawingOptions& options)
    : Dataset(drawing_fields(options, {options.size, options.size})), options_(options) {}

uint64_t DrawnShapes::fingerprint() const {
  return hash_of("shapes", options_);
}

void DrawnShapes::write(int64_t sample, int64_t row, Batch& batch) const {
  SampleRandom random(options_, "shapes", sample);
  const auto size = static_cast<double>(options_.size);
  const auto pixels = batch.row<float>("images", row);
  const auto labels = batch.row<int32_t>(kLabels, row);
  std::ranges::fill(pixels, 0.0f);
  std::ranges::fill(labels, 0);
  for (int64_t left = 1 + random.below(3); left > 0; --left) {
    DrawnShape shape{.kind = 1 + random.below(kShapeClasses - 1),
                     .reach = random.between(0.15, 0.3) * size};
    shape.y = random.between(shape.reach, size - shape.reach);
    shape.x = random.between(shape.reach, size - shape.reach);
    const auto brightness = static_cast<float>(random.between(0.5, 1));
    for (int64_t y = 0; y < options_.size; ++y)
      for (int64_t x = 0; x < options_.size; ++x) {
        if (!shape.covers(middle(y), middle(x))) continue;
        const int64_t at = y * options_.size + x;
        pixels[at] = brightness;
        labels[at] = static_cast<int32_t>(shape.kind);
      }
  }
  add_noise(pixels, options_, sample);
}

}  // namespace tessera
