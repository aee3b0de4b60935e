// Matrix product of f32 on the calling thread. One adapter source chooses the library.
#pragma once

#include <cstdint>

namespace tessera {

/// A row-major matrix in memory, or one whose memory is row-major transposed: element (i, j) at
/// data[i * leading + j], or with `transposed` at data[j * leading + i].
struct MatrixView {
  const float* data = nullptr;
  int64_t leading = 1;
  bool transposed = false;
};

/// The extents of a product: (rows x inner) (inner x columns). Each may be 0.
struct GemmShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
};

/// out = scale a b, or with `accumulate` out += scale a b; out(i, j) at out[i * out_leading + j].
void gemm(const GemmShape& shape, float scale, const MatrixView& a, const MatrixView& b,
          bool accumulate, float* out, int64_t out_leading);

/// Prevents the library from starting a team of threads. Each thread that calls gemm must call it
/// first.
void use_one_thread_for_gemm();

}  // namespace tessera
