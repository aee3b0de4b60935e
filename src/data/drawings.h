// Pictures that the project makes: digits to be told apart, and shapes to be told apart pixel by
// pixel.
#pragma once

#include "data/batch.h"

namespace tessera {

/// How pictures are drawn. Sample i follows from the seed and i alone.
struct DrawingOptions {
  int64_t samples = 1;
  int64_t size = 16;   // rows and columns, at least kLeastDrawing
  double noise = 0.1;  // deviation of the normal number that is added to each pixel
  uint64_t seed = 1;
};
inline constexpr int64_t kLeastDrawing = 12;

/// One digit a picture, from a font of 5 x 7 dots, magnified by a random factor so that it takes
/// 55% to 90% of the height, at a random place where it is seen whole, in a random brightness on
/// black.
///
///   fields   images f32[1, size, size], labels i32[]
///   classes  10
class DrawnDigits : public Dataset {
 public:
  explicit DrawnDigits(const DrawingOptions& options);
  int64_t samples() const override { return options_.samples; }
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  DrawingOptions options_;
};

/// One to three shapes a picture, each of a random kind, size, place and brightness; a later one
/// hides what it covers.
///
///   fields   images f32[1, size, size], labels i32[size, size]
///   classes  0 the ground, 1 circles, 2 squares, 3 triangles
class DrawnShapes : public Dataset {
 public:
  explicit DrawnShapes(const DrawingOptions& options);
  int64_t samples() const override { return options_.samples; }
  uint64_t fingerprint() const override;
  void write(int64_t sample, int64_t row, Batch& batch) const override;

 private:
  DrawingOptions options_;
};

inline constexpr int64_t kDigitClasses = 10;
inline constexpr int64_t kShapeClasses = 4;

}  // namespace tessera
