// Convolution of f32 on the calling thread. One adapter source chooses the library.
#pragma once

#include <memory>

#include "kernels/cpu/spatial/spatial.h"

namespace tessera {

/// The tensor that a convolution computes from the other two.
enum class ConvolutionResult { kY, kX, kW };

/// x[batch, groups * in, space...], w[groups * out, in, windows...], y[batch, groups * out,
/// positions...]: local extents, none of which is 0.
struct ConvolutionShape {
  int64_t batch = 1, groups = 1, in = 1, out = 1;
  std::vector<LocalWindow> dims;
};

/// The workspace of a convolution: copies of the three tensors in the library's layouts. It grows
/// with every extent, whichever layouts are chosen.
Bytes convolution_workspace(const ConvolutionShape& shape);

/// A convolution that is prepared for one shape: the constructor makes the library's code.
///
///   workspace  convolution_workspace(shape)
///   memory     also holds the scratch memory of the library, which is small except for groups of
///              odd sizes and wide padding
///   source     oneDNN, algorithm direct
class PreparedConvolution {
 public:
  PreparedConvolution(const ConvolutionShape& shape, ConvolutionResult result);
  ~PreparedConvolution();
  PreparedConvolution(const PreparedConvolution&) = delete;
  PreparedConvolution& operator=(const PreparedConvolution&) = delete;

  /// Dense row-major tensors: (x, w) -> y, (y, w) -> x, (x, y) -> w.
  void run(const float* a, const float* b, float* made, std::byte* workspace);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tessera
