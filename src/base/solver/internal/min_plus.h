// The inner loops of message passing and elimination.
#pragma once

#include <cstdint>

namespace tessera::solver {

/// out[t] = min over s of x[s] + table[s * columns + t]. It uses only additions and minima, so
/// every machine gets the same bits.
void min_plus(const double* x, const double* table, int32_t rows, int32_t columns, double* out);
/// sum[t] += row[t]
void add_row(double* sum, const double* row, int32_t columns);

}  // namespace tessera::solver
