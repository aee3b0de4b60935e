#include "base/solver/internal/min_plus.h"

namespace tessera::solver {
namespace {

// Each function has one body, which is compiled for several instruction sets; the one to use is
// chosen when the program starts. (target_clones would do the same, but its resolvers run before a
// thread sanitizer is ready.)

[[gnu::always_inline]] inline void min_plus_body(const double* x, const double* table, int32_t rows,
                                                 int32_t columns, double* __restrict out) {
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

[[gnu::always_inline]] inline void add_row_body(double* __restrict sum, const double* row,
                                                int32_t columns) {
  for (int32_t t = 0; t < columns; ++t) sum[t] += row[t];
}

struct Loops {
  void (*min_plus)(const double*, const double*, int32_t, int32_t, double*);
  void (*add_row)(double*, const double*, int32_t);
};

void min_plus_any(const double* x, const double* table, int32_t rows, int32_t columns,
                  double* out) {
  min_plus_body(x, table, rows, columns, out);
}
void add_row_any(double* sum, const double* row, int32_t columns) {
  add_row_body(sum, row, columns);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void min_plus_avx2(const double* x, const double* table, int32_t rows,
                                           int32_t columns, double* out) {
  min_plus_body(x, table, rows, columns, out);
}
[[gnu::target("avx2")]] void add_row_avx2(double* sum, const double* row, int32_t columns) {
  add_row_body(sum, row, columns);
}

[[gnu::target("avx512f")]] void min_plus_avx512(const double* x, const double* table, int32_t rows,
                                                int32_t columns, double* out) {
  min_plus_body(x, table, rows, columns, out);
}
[[gnu::target("avx512f")]] void add_row_avx512(double* sum, const double* row, int32_t columns) {
  add_row_body(sum, row, columns);
}

Loops loops_of_machine() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return {min_plus_avx512, add_row_avx512};
  if (__builtin_cpu_supports("avx2")) return {min_plus_avx2, add_row_avx2};
  return {min_plus_any, add_row_any};
}
#else
Loops loops_of_machine() {
  return {min_plus_any, add_row_any};
}
#endif

const Loops kLoops = loops_of_machine();

}  // namespace

void min_plus(const double* x, const double* table, int32_t rows, int32_t columns, double* out) {
  kLoops.min_plus(x, table, rows, columns, out);
}

void add_row(double* sum, const double* row, int32_t columns) {
  kLoops.add_row(sum, row, columns);
}

}  // namespace tessera::solver
