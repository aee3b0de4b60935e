// Synthetic images: digits for classification, and shapes for segmentation.
#pragma once

#include "training/data/batch.h"

namespace tessera {

/// Options of synthetic images. Sample i depends only on the seed and i.
struct DrawingOptions {
  int64_t samples = 1;
  int64_t size = 16;   // rows and columns, at least kMinDrawing
  double noise = 0.1;  // standard deviation of the normal noise of each pixel
  uint64_t seed = 1;
};
inline constexpr int64_t kMinDrawing = 12;

/// Images of one digit in a font of 5 x 7 dots. The digit takes 55% to 90% of the height; its size,
/// its position inside the image and its brightness on black are random.
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

/// Images of one to three shapes of random kind, size, position and brightness. A later shape
/// covers an earlier one.
///
///   fields   images f32[1, size, size], labels i32[size, size]
///   classes  0 background, 1 circles, 2 squares, 3 triangles
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
