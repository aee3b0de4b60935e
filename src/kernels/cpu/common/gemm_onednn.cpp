// gemm by oneDNN. It uses dnnl_sgemm rather than the matmul primitive: dnnl_sgemm needs no
// descriptors, takes any strides, and has no slow shapes.
#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/threads/address_space.h"
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/openmp.h"
#include "oneapi/dnnl/dnnl.h"

namespace tessera {
namespace {

// The library requires leading dims that cover a row even when there is only one row.
int64_t leading_of(const MatrixView& matrix, int64_t rows, int64_t columns) {
  return std::max({matrix.leading, matrix.transposed ? rows : columns, int64_t{1}});
}

void fill_zeros(const GemmShape& shape, float* out, int64_t out_leading) {
  for (int64_t row = 0; row < shape.rows; ++row)
    std::fill_n(out + row * out_leading, shape.columns, 0.0f);
}

}  // namespace

namespace {

/// oneDNN generates the code of its products at the first ones, and crashes where it finds no
/// memory for it. So that happens here, at once, after a check.
void generate_code() {
  require_address_space(Bytes{32 << 20});
  const float one = 1;
  for (const char a : {'N', 'T'})
    for (const char b : {'N', 'T'}) {
      float out = 0;
      dnnl_sgemm(a, b, 1, 1, 1, 1.0f, &one, 1, &one, 1, 0.0f, &out, 1);
    }
}

}  // namespace

void gemm(const GemmShape& shape, float scale, const MatrixView& a, const MatrixView& b,
          bool accumulate, float* out, int64_t out_leading) {
  if (shape.rows == 0 || shape.columns == 0) return;
  if (shape.inner == 0) {
    if (!accumulate) fill_zeros(shape, out, out_leading);
    return;
  }
  static std::once_flag has_code;
  std::call_once(has_code, generate_code);
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', shape.rows, shape.columns,
                 shape.inner, scale, a.data, leading_of(a, shape.rows, shape.inner), b.data,
                 leading_of(b, shape.inner, shape.columns), accumulate ? 1.0f : 0.0f, out,
                 std::max(out_leading, shape.columns));
  ensure(status == dnnl_success, "oneDNN refused a matrix product");
}

void use_one_thread_for_gemm() {
  set_openmp_threads(1);
}

}  // namespace tessera
