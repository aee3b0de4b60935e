#include "solver/min_plus.h"

namespace tessera::solver {

[[gnu::target_clones("avx512f", "avx2", "default")]] void min_plus(const double* x, const double* table, int32_t rows, int32_t columns,
                                                                   double* __restrict out) {
  const double first = x[0];
  for (int32_t t = 0; t < columns; ++t) out[t] = first + table[t];
  for (int32_t s = 1; s < rows; ++s) {
    const double own = x[s];
    const double* row = table + static_cast<int64_t>(s) * columns;
    for (int32_t t = 0; t < columns; ++t) {
      const double cost = own + row[t];
      out[t] = cost < out[t] ? cost : out[t];
    }
  }
}

[[gnu::target_clones("avx512f", "avx2", "default")]] void add_row(double* __restrict sum, const double* row, int32_t columns) {
  for (int32_t t = 0; t < columns; ++t) sum[t] += row[t];
}

}  // namespace tessera::solver
