// Convolution of f32 on the calling thread. One adapter source chooses the library.
#pragma once

#include <memory>

#include "kernels/cpu/spatial/spatial.h"

namespace tessera {

/// The tensor that a convolution makes of the other two.
enum class ConvolutionResult { kY, kX, kW };

/// x[batch, groups * in, space...], w[groups * out, in, windows...], y[batch, groups * out,
/// places...]: local extents, none 0.
struct ConvolutionShape {
  int64_t batch = 1, groups = 1, in = 1, out = 1;
  std::vector<LocalWindow> dims;
};

/// A convolution prepared for one shape: the library's code is made when it is constructed.
///
///   workspace  copies of the three tensors in the library's layouts; its size grows with every
///   extent, whichever layouts are chosen memory     also holds what the library wants as scratch
///   for itself: little, but for groups of odd sizes and wide padding source     oneDNN, algorithm
///   direct
class PreparedConvolution {
 public:
  PreparedConvolution(const ConvolutionShape& shape, ConvolutionResult result);
  ~PreparedConvolution();
  PreparedConvolution(const PreparedConvolution&) = delete;
  PreparedConvolution& operator=(const PreparedConvolution&) = delete;

  Bytes workspace() const;
  /// Dense row-major: (x, w) -> y, (y, w) -> x, (x, y) -> w.
  void run(const float* a, const float* b, float* made, std::byte* workspace);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tessera
